# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a guest's root is made of: a tree (Debian's packages, an image, a folder), what is ours in
it (personalise.py), and a file system around it (image.py). lab/setup/root.py makes products of it.
"""
