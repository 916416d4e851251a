# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The evaluation as one page: what was measured, beside what the papers give."""
