"""The library in clients/spring. Its tests in Java start Sluice, and with --long a gateway."""

import os
import unittest
import xml.etree.ElementTree

from harness import binary
from maven_harness import copied, maven


class Library(unittest.TestCase):
    def test_its_tests_pass(self):
        project = copied("clients/spring", "client")
        tests = [] if os.environ.get("SLUICE_LONG_TESTS") else ["-Dtest=!GatewayTest"]
        maven(project, *tests, "package", SLUICE_BINARY=os.path.abspath(binary()))
        reports = list((project / "target/surefire-reports").glob("*.xml"))
        suites = [xml.etree.ElementTree.parse(one).getroot().attrib for one in reports]
        self.assertGreater(sum(int(one["tests"]) for one in suites), 20)
        self.assertEqual(sum(int(one["skipped"]) for one in suites), 0)


if __name__ == "__main__":
    unittest.main()
