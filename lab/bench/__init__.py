# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measurements: each is one module, started by `rem bench NAME`, and ends in one Result."""
