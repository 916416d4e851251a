# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Figures in documents: where each comes from, and whether it is still true."""
