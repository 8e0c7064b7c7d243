# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Results of tests as a JUnit file."""

import xml.etree.ElementTree as ElementTree


def printable(text):
    """Kernel logs may have characters that XML does not allow."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


class Suite:
    def __init__(self, name):
        self._suite = ElementTree.Element("testsuite", name=name)

    def __len__(self):
        return len(self._suite)

    def passed(self, classname, name):
        return ElementTree.SubElement(self._suite, "testcase", classname=classname, name=name)

    def skipped(self, classname, name, why):
        ElementTree.SubElement(self.passed(classname, name), "skipped", message=why)

    def failed(self, classname, name, message, text):
        ElementTree.SubElement(self.passed(classname, name), "failure", message=message).text = printable(text)

    def write(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        ElementTree.ElementTree(self._suite).write(path, encoding="utf-8", xml_declaration=True)
