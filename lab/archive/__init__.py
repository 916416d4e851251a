# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Archives from sources that are not trusted: a guest, an image. See tar_stream.py and tree.py."""
