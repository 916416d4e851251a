# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The power supply as Python asks for it. All arithmetic is the crate's in power/; none is here."""
