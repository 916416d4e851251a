# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The image record in NVRAM, decoded: the block, the loader's boot note, times of Stop and Go."""
