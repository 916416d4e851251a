# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What people look at: tables, pictures and pages, each a pure function of decoded records."""
