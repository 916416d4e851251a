# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The rules of this repository that no other linter checks; `rem tidy` prints the findings."""
