# SPDX-License-Identifier: Apache-2.0 OR MIT
"""OCI images: reads an image layout (layout.py), unpacks its layers (layers.py) and describes its
process for the guest's init (service.py). Everything in an image is untrusted.
"""
