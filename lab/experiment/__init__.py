# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Experiments: the figures and tables of the papers that are reproduced (experiments/)."""
