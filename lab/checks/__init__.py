# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What `rem test` and `rem fmt` run: linters, runners of tests, and how CI's time is divided."""
