"""deploy/compose.yaml, deploy/kubernetes and deploy/helm: that they fit the program and the files next to
them. They start no containers: what a container would run, runs in a network of its own."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import unittest

import yaml
from harness import PATIENCE, ROOT, ServerTest, tool

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm/sluice"
DOCKERFILE = (ROOT / "packaging/Dockerfile").read_text("utf-8")
PROGRAM = os.environ.get("SLUICE_BINARY", "")
SCHEMAS = os.environ.get("SLUICE_KUBERNETES", "")  # kubernetes-validate, check-jsonschema, and what they need
HELM = os.environ.get("SLUICE_HELM", "")  # the program
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


def live_page():
    """The file of docs/install.md that publishes the live page."""
    page = (ROOT / "docs/install.md").read_text("utf-8")
    return yaml.safe_load(re.search(r"(?s)cat >live.yaml <<'END'\n(.*?)\nEND\n", page)[1])


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

    def test_the_live_page_can_be_published(self):
        live = live_page()
        changes = live["services"]["sluice"]
        folder = self.folder()
        config = live["configs"]["sluice"]["content"]
        (folder / "sluice.yaml").write_text(self.here("sluice", config), "utf-8")
        before = yaml.safe_load(self.config("sluice", "/etc/sluice/sluice.yaml"))
        self.assertEqual({**yaml.safe_load(config), **before}, yaml.safe_load(config))
        (variable,) = changes["environment"]
        (port,) = (entry.rsplit(":", 1)[1] for entry in changes["ports"])
        answers = run_apart(
            f"{variable}=0123456789abcdef {PROGRAM} serve --config {folder}/sluice.yaml >{folder}/log 2>&1 &\n"
            + until(f"curl -sf http://127.0.0.1:{port}/readyz")
            + f"for token in 0123456789abcdef 0123456789abcdee; do curl -s -o /dev/null -w '%{{http_code}} ' "
            f"-H \"Authorization: Bearer $token\" http://127.0.0.1:{port}/v1/status; done\n"
            f"curl -s http://127.0.0.1:{port}/ | grep -io '^<!doctype'\n")
        self.assertEqual(answers.lower().split()[:3], ["200", "401", "<!doctype"])

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


def render(text, values):
    """What Helm makes of a template that has only what the templates of this chart have."""
    scope = {"Values": values, "Release": {"Name": "sluice"},
             "Chart": {"AppVersion": yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))["appVersion"]}}

    def value(expression, dot):
        words, *filters = (part.split() for part in expression.split("|"))
        if words[0] == "toYaml":
            found = yaml.safe_dump(value(words[1], dot)).rstrip("\n")
        else:
            found = dot
            for name in words[0].strip(".").split(".") if words[0] != "." else ():
                found = (scope if found is dot else found)[name]
        for name, *arguments in filters:
            if name == "default":
                found = found or value(arguments[0], dot)
            elif name == "trim":
                found = found.strip()
            elif name == "nindent":
                pad = "\n" + int(arguments[0]) * " "
                found = pad + pad.join(found.split("\n"))
            else:
                raise AssertionError(f"a test cannot render {name}; expected a simpler template")
        return found

    # Each part is a text, or "{{" and what is in it.
    parts = re.split(r"(?s)(\s*\{\{-.*?\}\}|\{\{.*?\}\})", text)
    out, blocks = "", [(True, None)]  # whether a block is written, and its dot
    for part in parts:
        is_written, dot = blocks[-1]
        if not part.lstrip().startswith("{{"):
            out += part if is_written else ""
            continue
        inner = part.strip()[2:-2].strip("- ")
        if inner == "end":
            blocks.pop()
        elif inner.split()[0] in ("if", "with"):
            found = value(inner.split(" ", 1)[1], dot)
            blocks.append((is_written and bool(found), found if inner.startswith("with") else dot))
        elif is_written:
            out += str(value(inner, dot))
    return out


# Values that together use each part of the chart.
CHANGES = {
    "none": {},
    "a monitor": {"serviceMonitor": {"enabled": True}},
    "three servers": {"replicas": 3, "store": "redis://redis:6379", "env": [{"name": "REDIS_PASSWORD", "value": "x"}]},
    "all": {
        "image": {"repository": "registry.example.com/sluice", "tag": "1.2", "pullPolicy": "Always"},
        "replicas": 2, "store": "redis://redis:6379", "terminationGracePeriodSeconds": 60,
        "config": "\nversion: 1\n\nlog: { format: json }   # '{{ x }}' and \"x\"\n\n",
        "rules": "version: 1\nrules:\n  - name: all\n    match: { path: \"/**\" }\n",
        "env": [{"name": "REDIS_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "redis", "key": "password"}}},
                {"name": "ON", "value": "yes"}],
        "resources": {"requests": {"cpu": 1, "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "serviceMonitor": {"enabled": True}},
}


def rendered(**changes):
    values = {**yaml.safe_load((CHART / "values.yaml").read_text("utf-8")), **changes}
    texts = (render(path.read_text("utf-8"), values) for path in sorted((CHART / "templates").iterdir()))
    return {made["kind"]: made for made in map(yaml.safe_load, texts) if made}


def plain():
    with open(DEPLOY / "kubernetes/sluice.yaml", encoding="utf-8") as file:
        return {made["kind"]: made for made in yaml.safe_load_all(file)}


def pod(objects):
    return objects["Deployment"]["spec"]["template"]["spec"]


class Kubernetes(ServerTest):
    def test_the_manifests_are_what_the_chart_makes(self):
        self.assertEqual(rendered(), plain())
        self.assertEqual(set(plain()), {"ConfigMap", "Deployment", "PodDisruptionBudget", "Service"})

    def test_values_change_what_they_name(self):
        changed = rendered(serviceMonitor={"enabled": True}, replicas=3, store="redis://redis:6379",
                           env=[{"name": "REDIS_PASSWORD", "value": "x"}])
        self.assertEqual(changed["ServiceMonitor"]["spec"]["endpoints"][0]["path"], "/metrics")
        self.assertEqual(changed["Deployment"]["spec"]["replicas"], 3)
        self.assertEqual(pod(changed)["containers"][0]["env"],
                         [{"name": "SLUICE_STORE", "value": "redis://redis:6379"},
                          {"name": "REDIS_PASSWORD", "value": "x"}])

    def test_the_chart_has_the_version_of_the_program(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
        printed = subprocess.run([PROGRAM, "--version"], check=True, capture_output=True, text=True).stdout
        self.assertEqual(printed.split()[-1], chart["appVersion"])
        self.assertEqual(chart["version"], chart["appVersion"])

    def test_a_pod_may_drain(self):
        self.assertLess(drain_of(plain()["ConfigMap"]["data"]["sluice.yaml"]),
                        pod(plain())["terminationGracePeriodSeconds"])

    def test_a_pod_has_no_privileges(self):
        spec, container = pod(plain()), pod(plain())["containers"][0]
        self.assertTrue(spec["securityContext"]["runAsNonRoot"])
        self.assertEqual(container["securityContext"], {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}})

    def test_the_server_of_a_pod_answers_the_probes_and_the_service(self):
        folder, state = self.folder(), self.folder()
        for name, text in plain()["ConfigMap"]["data"].items():
            text = text.replace("/etc/sluice", str(folder)).replace("/var/lib/sluice", str(state))
            (folder / name).write_text(text, "utf-8")
        container = pod(plain())["containers"][0]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        probes = [container[name]["httpGet"] for name in ("readinessProbe", "livenessProbe")]
        self.assertEqual([probe["path"] for probe in probes], ["/readyz", "/healthz"])
        self.assertEqual(plain()["Service"]["spec"]["ports"][0]["targetPort"], "http")
        mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
        self.assertEqual(mounts, ["/etc/sluice", "/var/lib/sluice"])
        arguments = [word.replace("/etc/sluice", str(folder)) for word in container["args"]]
        variables = " ".join(f"{one['name']}={one['value']}" for one in container["env"])
        said = run_apart(f"{variables} {PROGRAM} {shlex.join(arguments)} >{state}/log 2>&1 &\n" + "".join(
            until(f"curl -sf http://127.0.0.1:{ports[probe['port']]}{probe['path']}") for probe in probes)
            + f"{PROGRAM} key all ip=192.0.2.1 --set limit=5\ncat {state}/overrides.txt {state}/log\n")
        self.assertIn("192.0.2.1", said)
        self.assertNotIn(" warning ", said)


@unittest.skipUnless(HELM, "needs Helm")
class Helm(ServerTest):
    def helm(self, chart, command, changes):
        folder = self.folder()
        (folder / "values.yaml").write_text(yaml.safe_dump(changes), "utf-8")
        return subprocess.run([HELM, *command, chart, "--values", folder / "values.yaml"], check=False,
                              env={**os.environ, "HOME": str(folder)}, capture_output=True, text=True)

    def test_it_makes_the_same_objects_as_the_tests(self):
        for name, changes in CHANGES.items():
            with self.subTest(name):
                done = self.helm(CHART, ["template", "sluice"], changes)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                objects = list(yaml.safe_load_all(done.stdout))
                made = {one["kind"]: one for one in objects}
                self.assertEqual(made, rendered(**changes))
                self.assertEqual(len(objects), len(made))

    def test_it_finds_no_fault(self):
        for name, changes in CHANGES.items():
            with self.subTest(name):
                done = self.helm(CHART, ["lint", "--strict"], changes)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_it_finds_faults(self):
        for path, right, wrong in (("Chart.yaml", "version: 0.1.0", "version: one"),
                                   ("templates/service.yaml", "kind: Service", "kind: [Service"),
                                   ("templates/service.yaml", ".Release.Name", ".Release.Name.x")):
            with self.subTest(wrong):
                chart = self.folder() / "sluice"
                shutil.copytree(CHART, chart)
                text = (chart / path).read_text("utf-8")
                self.assertIn(right, text)
                (chart / path).write_text(text.replace(right, wrong, 1), "utf-8")
                self.assertEqual(self.helm(chart, ["lint", "--strict"], {}).returncode, 1)


def fits(test, made, schema):
    """Compares an object with a schema of JSON."""
    file = test.folder() / "made.json"
    file.write_text(json.dumps(made), "utf-8")
    check = "import json, jsonschema, sys\njsonschema.validate(*map(json.load, map(open, sys.argv[1:])))"
    return subprocess.run([sys.executable, "-c", check, file, schema], check=False,
                          env={**os.environ, "PYTHONPATH": SCHEMAS}, capture_output=True, text=True)


@unittest.skipUnless(SCHEMAS, "needs the schema of check-jsonschema")
class ComposeSchema(ServerTest):
    def check(self, file):
        return fits(self, file, f"{SCHEMAS}/check_jsonschema/builtin_schemas/vendor/compose-spec.json")

    def test_the_file_fits_the_schema_of_compose(self):
        text = (DEPLOY / "compose.yaml").read_text("utf-8")
        done = self.check(yaml.safe_load(text))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.check(live_page()).returncode, 0)
        for right, wrong in (("depends_on:", "depend_on:"), ("cap_drop: [ALL]", "cap_drop: ALL"),
                             ("condition: service_healthy", "condition: healthy")):
            self.assertIn(right, text)
            done = self.check(yaml.safe_load(text.replace(right, wrong)))
            self.assertIn("jsonschema.exceptions.ValidationError", done.stderr, wrong)


@unittest.skipUnless(SCHEMAS, "needs kubernetes-validate")
class KubernetesSchemas(ServerTest):
    def test_the_objects_fit_the_schemas_of_kubernetes(self):
        made, wrong = self.folder() / "made.yaml", self.folder() / "wrong.yaml"
        objects = [one for changes in CHANGES.values() for kind, one in rendered(**changes).items()
                   if kind != "ServiceMonitor"]
        self.assertEqual(len(objects), 4 * len(CHANGES))
        made.write_text(yaml.safe_dump_all(objects), "utf-8")
        wrong.write_text(made.read_text("utf-8").replace("replicas: 3", "replicas: three"), "utf-8")
        for file, status in ((DEPLOY / "kubernetes/sluice.yaml", 0), (made, 0), (wrong, 1)):
            done = subprocess.run([sys.executable, "-m", "kubernetes_validate", "--strict", file], check=False,
                                  env={**os.environ, "PYTHONPATH": SCHEMAS}, capture_output=True, text=True)
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)

    def test_the_monitor_fits_the_schema_of_the_operator_of_prometheus(self):
        monitor = rendered(serviceMonitor={"enabled": True})["ServiceMonitor"]
        schema = ROOT / "tests/functional/servicemonitor.schema.json"
        done = fits(self, monitor, schema)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = json.dumps(monitor)
        for right, wrong in (('"interval": "15s"', '"interval": "15 s"'), ('"path":', '"paths":'),
                             ('"jobLabel":', '"job_label":'), ('"endpoints":', '"endpoint":'),
                             ('"port": "http"', '"port": 8080')):
            self.assertIn(right, text)
            done = fits(self, json.loads(text.replace(right, wrong)), schema)
            self.assertIn("jsonschema.exceptions.ValidationError", done.stderr, wrong)
