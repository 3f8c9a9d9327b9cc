package sluice.spring;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.springframework.util.FileSystemUtils;

/** The program in the environment variable SLUICE_BINARY, serving RESP on a port of the loopback. */
final class SluiceServer implements AutoCloseable {
  static final String RULES = """
      version: 1
      rules:
        - name: send-code
          match: { path: /send/code }
          limits: [ { key: "{key}", algorithm: sliding_window_log, limit: 2, per: 1h } ]
        - name: login
          match: { method: POST, path: /login }
          limits: [ { key: "{ip}", algorithm: fixed_window, limit: 1, per: 1h } ]
        - name: user
          match: { path: /user }
          limits: [ { key: "{header.x-user-id|ip}", algorithm: gcra, limit: 1, per: 1h, burst: 1 } ]
        - name: closed
          match: { path: /closed }
          limits: [ { key: "{key}", algorithm: fixed_window, limit: 0, per: 1h } ]
        - name: balance
          match: { path: /balance }
          limits: [ { key: "{key}", algorithm: budget, limit: 5, per: never } ]
        - name: queue
          match: { path: /queue }
          limits: [ { algorithm: leaky_bucket, mode: queue, limit: 20, per: 1s, burst: 5 } ]
        - name: trial
          match: { path: /trial }
          mode: shadow
          limits: [ { algorithm: fixed_window, limit: 1, per: 1h } ]
        - name: export
          match: { path: /export }
          limits: [ { algorithm: concurrency, limit: 1, lease: 1h } ]
      """;

  final int port;
  private final Path folder;
  private final Process process;

  /** Starts the server at a free port if `wanted` is 0. Waits until it is ready. */
  SluiceServer(int wanted) throws IOException {
    folder = Files.createTempDirectory("sluice-spring-");
    Files.writeString(folder.resolve("rules.yaml"), RULES);
    Files.writeString(folder.resolve("sluice.yaml"), """
        version: 1
        rules: rules.yaml
        drain: { delay: 0s }
        listen: { http: "127.0.0.1:0", admin: "127.0.0.1:0", grpc: "off", resp: "127.0.0.1:%d" }
        """.formatted(wanted));
    process = new ProcessBuilder(System.getenv("SLUICE_BINARY"), "serve", "--config", "sluice.yaml")
        .directory(folder.toFile()).redirectError(folder.resolve("log").toFile()).start();
    String line = new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
    if (line == null) {
      throw new IOException("sluice did not start: " + Files.readString(folder.resolve("log")));
    }
    port = Integer.parseInt(line.replaceFirst(".*resp=127\\.0\\.0\\.1:(\\d+).*", "$1"));
  }

  String url() {
    return "redis://127.0.0.1:" + port;
  }

  /** Stops all threads of the server until `resume()`. */
  void pause() throws IOException, InterruptedException {
    signal("STOP");
    String[] threads = Path.of("/proc", Long.toString(process.pid()), "task").toFile().list();
    for (String thread : threads) { // a signal lets other threads run for a while
      while (!Files.readString(Path.of("/proc", thread, "stat")).contains(") T ")) {
        Thread.sleep(1);
      }
    }
  }

  void resume() throws IOException, InterruptedException {
    signal("CONT");
  }

  private void signal(String name) throws IOException, InterruptedException {
    new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).start().waitFor();
  }

  SluiceClient client(SluiceProperties.OnFailure onFailure) {
    return new SluiceClient(new SluiceProperties(url(), Duration.ofSeconds(10), onFailure));
  }

  @Override
  public void close() throws IOException, InterruptedException {
    process.destroy();
    if (!process.waitFor(30, TimeUnit.SECONDS)) {
      process.destroyForcibly().waitFor();
    }
    FileSystemUtils.deleteRecursively(folder);
  }
}
