# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measurements: each is one module, run by `rem bench NAME`, and returns one Result."""
