"""deploy/compose.yaml: that it fits the program and the files next to it. No test starts containers: what
a container would run, runs in a network of its own."""

import json
import os
import pathlib
import re
import shlex
import subprocess

import yaml
from harness import PATIENCE, ROOT, ServerTest, tool

DEPLOY = ROOT / "deploy"
DOCKERFILE = (ROOT / "packaging/Dockerfile").read_text("utf-8")
PROGRAM = os.environ.get("SLUICE_BINARY", "")
UNIT_SECONDS = {"ms": 0.001, "s": 1, "m": 60}


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m)", text).groups()
    return int(number) * UNIT_SECONDS[unit]


def drain_of(config):
    """The seconds that a server with this configuration may take to end."""
    given = {"delay": "2s", "timeout": "10s", **yaml.safe_load(config).get("drain", {})}
    return seconds(given["delay"]) + seconds(given["timeout"])


def run_apart(script):
    """Runs a script of bash in its own network and with its own processes, which end with it."""
    done = subprocess.run(
        ["unshare", "--net", "--pid", "--fork", "--kill-child", "bash", "-euc", f"ip link set lo up\n{script}"],
        capture_output=True, text=True, timeout=2 * PATIENCE, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def until(command):
    return f"until {command} >/dev/null 2>&1; do sleep 0.05; done\n"


class Compose(ServerTest):
    file = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    services = file["services"]

    def mounts(self, name):
        """{place in the container: place here}"""
        for volume in self.services[name].get("volumes", ()):
            source, target, *options = volume.split(":")
            self.assertEqual(options, ["ro"])
            yield target, (DEPLOY / source).resolve()

    def config(self, name, target):
        for config in self.services[name]["configs"]:
            if config["target"] == target:
                return self.file["configs"][config["source"]]["content"]
        raise AssertionError(f"{name} has no {target}")

    def here(self, name, text):
        """A text with the places in a container, with those of this machine instead."""
        for target, source in sorted(self.mounts(name), reverse=True):
            text = text.replace(target, str(source))
        return text.replace("redis:6379", "127.0.0.1:6379")

    def command(self, name):
        return shlex.join(self.here(name, word) for word in self.services[name]["command"])

    def test_every_mounted_file_exists(self):
        for name in self.services:
            for target, source in self.mounts(name):
                self.assertTrue(source.exists(), f"{name}: {target}: there is no {source}")
        nginx = dict(self.mounts("nginx"))[self.services["nginx"]["command"][2]]
        self.assertTrue((nginx / self.services["nginx"]["command"][4]).exists())
        dashboards = yaml.safe_load(self.config("grafana", "/etc/grafana/provisioning/dashboards/sluice.yaml"))
        folder = dict(self.mounts("grafana"))[dashboards["providers"][0]["options"]["path"]]
        self.assertTrue((folder / "sluice.json").exists())

    def test_names_and_ports_agree(self):
        build = self.services["sluice"]["build"]
        self.assertEqual((DEPLOY / build["context"] / build["dockerfile"]).resolve(), ROOT / "packaging/Dockerfile")
        port = re.search(r'"--http", "0\.0\.0\.0:(\d+)"', DOCKERFILE)[1]
        for name in ("nginx", "prometheus"):  # their files name an address of Sluice that is loopback
            self.assertEqual(self.services[name]["network_mode"], "service:sluice")
        self.assertIn(f"server 127.0.0.1:{port};", (DEPLOY / "nginx/sluice_http.conf").read_text("utf-8"))
        self.assertIn(f"- 127.0.0.1:{port} ", (DEPLOY / "prometheus/prometheus.yml").read_text("utf-8"))
        listens = re.search(r"listen (\d+);", (DEPLOY / "nginx/nginx.conf").read_text("utf-8"))[1]
        published = [entry.rsplit(":", 1)[1] for entry in self.services["sluice"]["ports"]]
        self.assertEqual(published, [listens, "9090"])
        data = yaml.safe_load(self.config("grafana", "/etc/grafana/provisioning/datasources/sluice.yaml"))
        self.assertEqual(data["datasources"][0]["url"], "http://sluice:9090")
        self.assertEqual(self.services["sluice"]["environment"]["SLUICE_STORE"], "redis://redis:6379")

    def test_a_container_may_drain(self):
        config = self.config("sluice", "/etc/sluice/sluice.yaml")
        self.assertLess(drain_of(config), seconds(self.services["sluice"]["stop_grace_period"]))

    def test_it_limits_behind_nginx_and_prometheus_reads_the_counts(self):
        folder = self.folder()
        config = self.config("sluice", "/etc/sluice/sluice.yaml")
        (folder / "sluice.yaml").write_text(self.here("sluice", config), "utf-8")
        entry, arguments = (json.loads(re.search(rf"^{word} (\[.*\])$", DOCKERFILE, re.MULTILINE)[1])
                            for word in ("ENTRYPOINT", "CMD"))
        self.assertEqual(entry, ["sluice"])
        arguments[arguments.index("--config") + 1] = str(folder / "sluice.yaml")
        store = self.here("sluice", self.services["sluice"]["environment"]["SLUICE_STORE"])
        for target, source in self.mounts("prometheus"):
            text = source.read_text("utf-8").replace("scrape_interval: 15s", "scrape_interval: 1s")
            (folder / pathlib.Path(target).name).write_text(text, "utf-8")
        answers = run_apart(
            f"cd {folder}\n"
            f"{self.command('redis')} >redis.log &\n" + until("redis-cli ping")
            + f"SLUICE_STORE={store} {PROGRAM} {shlex.join(arguments)} >sluice.log 2>&1 &\n"
            f"{tool('nginx')} {self.command('nginx').split(' ', 1)[1]} 2>nginx.log &\n"
            f"{tool('prometheus')} --config.file=prometheus.yml --storage.tsdb.path=data 2>prometheus.log &\n"
            + until("curl -sf http://127.0.0.1:8000/status.html") + until("curl -sf http://127.0.0.1:8080/readyz")
            + "ask() { curl -s -o /dev/null -w '%{http_code}' -H 'X-User-Id: u' http://127.0.0.1:8000/api/order/1; }\n"
            "ask; echo\n"
            'until [[ $(ask) == 429 ]]; do :; done; echo 429\n'
            "redis-cli --raw keys '*order*user*'\n"
            + until("curl -s http://127.0.0.1:9090/api/v1/targets | grep '\"health\":\"up\"'") + "echo up\n")
        first, denied, *keys, up = answers.split()
        self.assertEqual((first, denied, up), ("200", "429", "up"))
        self.assertEqual(len(keys), 1, answers)
