# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Questions to the power model. All arithmetic is in models/power/; none is here."""
