# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The memory controllers' model (media/), driven from Python."""
