# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The protocol of Stop and Go as a model (models/protocol), and recordings beside it."""
