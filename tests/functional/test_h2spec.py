"""h2spec's cases of HTTP/2 and HPACK with the gRPC front end."""

import subprocess
import xml.etree.ElementTree

from harness import ServerTest
from test_resp_built_clients import Go, copied

# h2spec sends GET requests. The front end answers them with 405 as soon as their header is complete,
# without a body, and resets the stream.
OUR_CHOICE = {
    # They wait for DATA.
    "Sends a WINDOW_UPDATE frame on half-closed (remote) stream",
    "Sends a PRIORITY frame on half-closed (remote) stream",
    # A client of HTTP/1 gets an answer in its language. h2spec takes it for a malformed frame.
    "Sends invalid connection preface",
}
NGHTTP2S_CHOICE = {
    # It ignores frames of streams that are closed, and keeps no list of these.
    "closed: Sends a DATA frame after sending RST_STREAM frame",
    "closed: Sends a HEADERS frame after sending RST_STREAM frame",
    "closed: Sends a DATA frame",
    "closed: Sends a HEADERS frame",
    "Sends stream identifier that is numerically smaller than previous",
    # RFC 9113 deprecates priorities. It ignores such frames if SETTINGS says that they are not used.
    "Sends PRIORITY frame that depend on itself",
    "Sends a PRIORITY frame with 0x0 stream identifier",
}
# The rest of the request may arrive before or after the answer, and afterwards nobody looks at it.
EITHER = {
    # If each call is answered before the next one arrives, the limit is not reached.
    "Sends HEADERS frames that causes their advertised concurrent stream limit to be exceeded",
    'Sends a HEADERS frame with the "content-length" header field which does not equal the DATA frame payload length',
    'Sends a HEADERS frame with the "content-length" header field which does not equal the sum of the multiple DATA '
    "frames payload length",
    "Sends a HEADERS frame that contains a pseudo-header field as trailers",
    "Sends a second HEADERS frame without the END_STREAM flag",
    "Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1 on a stream",
    'Sends a DATA frame on the stream that is not in "open" or "half-closed (local)" state',
    "Sends a DATA frame with invalid pad length",
}
RUNS = 4


class H2spec(ServerTest):
    def test_only_known_cases_fail(self):
        server = self.serve(config={"listen": {"grpc": "127.0.0.1:0"}})
        folder = copied("go")
        Go.build(folder, "github.com/summerwind/h2spec/cmd/h2spec")
        command = ["./check", "--port", server.front_ends["grpc"].rsplit(":", 1)[1], "--junit-report"]
        reports = [folder / f"h2spec{run}.xml" for run in range(RUNS)]
        runs = [subprocess.Popen([*command, report], cwd=folder, stdout=subprocess.DEVNULL) for report in reports]
        for run in runs:
            run.wait(200)
        for report in reports:
            cases = list(xml.etree.ElementTree.parse(report).iter("testcase"))
            self.assertEqual(len(cases), 145)
            failed = {case.get("classname") for case in cases if case.find("error") is not None}
            self.assertEqual(failed - EITHER, OUR_CHOICE | NGHTTP2S_CHOICE)
