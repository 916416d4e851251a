# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What is derived from the parser of `rem`: options as records, manual page, shell completion."""
