# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The Python behind `rem`: sets up, runs, cuts, resumes and measures machines."""

__version__ = "0.1.0"
