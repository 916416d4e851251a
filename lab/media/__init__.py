# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Questions to the model of memory controllers (models/memory), and traces for it."""
