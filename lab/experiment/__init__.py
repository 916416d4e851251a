# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Experiments: each figure or table of the papers that is shown again (experiments/)."""
