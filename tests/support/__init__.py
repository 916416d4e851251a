# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What tests of several folders share."""
