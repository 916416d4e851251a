# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The memory controller in RTL (models/memory/rtl): its bench, and the comparison with its model.

The RTL and the model answer the same requests and write logs; `compare` alone reads both.
"""
