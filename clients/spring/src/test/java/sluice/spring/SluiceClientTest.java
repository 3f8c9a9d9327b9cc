package sluice.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static sluice.spring.SluiceProperties.OnFailure.ALLOW;
import static sluice.spring.SluiceProperties.OnFailure.DENY;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.netty.DisposableServer;
import reactor.netty.tcp.TcpServer;

@EnabledIfEnvironmentVariable(named = "SLUICE_BINARY", matches = ".+")
@ExtendWith(OutputCaptureExtension.class)
class SluiceClientTest {
  private SluiceServer sluice;
  private SluiceClient client;

  @BeforeEach
  void start() throws Exception {
    sluice = new SluiceServer(0);
    client = sluice.client(ALLOW);
  }

  @AfterEach
  void stop() throws Exception {
    client.destroy();
    sluice.close();
  }

  @Test
  void aRuleDecidesByTheKey() {
    List<Boolean> answers = Flux.range(0, 3)
        .concatMap(i -> client.check("send-code", Map.of("key", "anna"))).map(Decision::allowed)
        .collectList().block();
    assertThat(answers).containsExactly(true, true, false);
    assertThat(client.check("send-code", Map.of("key", "ben")).block().allowed()).isTrue();
  }

  @Test
  void aDecisionHasTheNumbersOfTheLimit() {
    client.check("login", Map.of("ip", "192.0.2.1")).block();
    Decision denied = client.check("login", Map.of("ip", "192.0.2.1")).block();
    assertThat(denied.isDecided()).isTrue();
    assertThat(denied.reason()).isEqualTo("limited");
    assertThat(denied.limit()).isEqualTo(1);
    assertThat(denied.remaining()).isZero();
    assertThat(denied.retryAfter().orElseThrow())
        .isBetween(Duration.ofMinutes(59), Duration.ofHours(1));
    assertThat(denied.headers()).containsEntry("X-RateLimit-Limit", "1")
        .containsEntry("X-RateLimit-Remaining", "0").containsEntry("Retry-After", "3600");
  }

  @Test
  void attributesThatNoRuleMatchesPass() {
    Decision decision = client.check("*", Map.of("path", "/other")).block();
    assertThat(decision.allowed()).isTrue();
    assertThat(decision.isDecided()).isTrue();
    assertThat(decision.headers()).isEmpty();
  }

  @Test
  void aRequestThatCanNeverPassHasNoRetryAfter() {
    Decision denied = client.check("closed", Map.of("key", "x")).block();
    assertThat(denied.allowed()).isFalse();
    assertThat(denied.reason()).isEqualTo("never");
    assertThat(denied.retryAfter()).isEmpty();
  }

  @Test
  void aBudgetThatDoesNotRenewHasNoResetAfter() {
    Decision decision = client.check("balance", Map.of("key", "x")).block();
    assertThat(decision.remaining()).isEqualTo(4);
    assertThat(decision.resetAfter()).isEmpty();
    assertThat(decision.headers()).containsKey("X-RateLimit-Remaining").doesNotContainKey("X-RateLimit-Reset");
  }

  @Test
  void aQueueSaysHowLongToWait() {
    client.check("queue", Map.of()).block();
    assertThat(client.check("queue", Map.of()).block().delay())
        .isBetween(Duration.ofMillis(1), Duration.ofMillis(50));
  }

  @Test
  void aShadowRuleHasNoNumbers() {
    client.check("trial", Map.of()).block();
    Decision decision = client.check("trial", Map.of()).block();
    assertThat(decision.reason()).isEqualTo("shadow");
    assertThat(decision.headers()).isEmpty();
  }

  @Test
  void aPermitIsReleasedAndOnFailureDecides(CapturedOutput output) {
    for (int i = 0; i < 3; i++) {
      assertThat(client.check("export", Map.of()).block()).isEqualTo(Decision.unavailable(true));
    }
    assertThat(output).contains("export").contains("counts concurrent requests");
  }

  @Test
  void limitsInTheArgumentsDecideLikeRedisCell() {
    Decision first = client.throttle("k", 1, 1, 60).block();
    assertThat(first).isEqualTo(new Decision(true, "ok", 2, 1,
        Optional.of(Duration.ofSeconds(60)), Optional.empty(), Duration.ZERO));
    client.throttle("k", 1, 1, 60).block();
    assertThat(client.throttle("k", 1, 1, 60).block().retryAfter()).isPresent();
  }

  @Test
  void concurrentRequestsAreAdmittedExactly() {
    long admitted = Flux.range(0, 1000).flatMap(i -> client.throttle("many", 99, 1, 3600), 500)
        .filter(Decision::allowed).count().block();
    assertThat(admitted).isEqualTo(100);
  }

  @Test
  void anUnknownRuleIsLoggedAndFollowsOnFailure(CapturedOutput output) {
    Decision decision = client.check("sned-code", Map.of("key", "anna")).block();
    assertThat(decision.isDecided()).isFalse();
    assertThat(decision.allowed()).isTrue();
    assertThat(output).contains("sned-code").contains("requests are allowed");
  }

  @Test
  void withoutSluiceOnFailureDecidesUntilItIsBack() throws Exception {
    SluiceClient closed = sluice.client(DENY);
    try {
      assertThat(client.throttle("back", 0, 1, 3600).block().isDecided()).isTrue();
      assertThat(closed.throttle("closed", 0, 1, 3600).block().allowed()).isTrue();
      sluice.close();
      assertThat(client.throttle("back", 0, 1, 3600).block()).isEqualTo(Decision.unavailable(true));
      assertThat(closed.throttle("back", 0, 1, 3600).block()).isEqualTo(Decision.unavailable(false));
      sluice = new SluiceServer(sluice.port);
      repeat(closed.throttle("again", 9, 1, 3600), Decision::isDecided);
    } finally {
      closed.destroy();
    }
  }

  @Test
  void aSluiceThatHangsDelaysNoLongerThanTheTimeout(CapturedOutput output) throws Exception {
    SluiceClient hasty = new SluiceClient(
        new SluiceProperties(sluice.url(), Duration.ofMillis(50), DENY));
    try {
      repeat(hasty.throttle("open", 9999, 1, 3600), Decision::isDecided);
      sluice.pause();
      assertThat(hasty.throttle("k", 0, 1, 3600).block(Duration.ofSeconds(20)))
          .isEqualTo(Decision.unavailable(false));
      assertThat(output).contains("requests are denied");
    } finally {
      sluice.resume();
      hasty.destroy();
    }
  }

  @Test
  void aConnectionThatStaysSilentIsReplaced() throws Exception {
    AtomicInteger connections = new AtomicInteger();
    DisposableServer silent = TcpServer.create().host("127.0.0.1").port(0)
        .doOnConnection(connection -> connections.incrementAndGet())
        .handle((in, out) -> out.sendString(in.receive().asString().map(sent -> // the first commands
            sent.replaceAll("(?s).*CL.THROTTLE.*|[^*]*", "").replaceAll("\\*", "+PONG\r\n"))))
        .bindNow();
    SluiceClient hasty = new SluiceClient(new SluiceProperties(
        "redis://127.0.0.1:" + silent.port(), Duration.ofMillis(50), DENY));
    try {
      repeat(hasty.throttle("k", 9, 1, 3600), decision -> connections.get() == 2);
    } finally {
      hasty.destroy();
      silent.disposeNow();
    }
  }

  @Test
  void aConnectionWithLateRepliesOrErrorsStays() throws Exception {
    AtomicInteger connections = new AtomicInteger();
    AtomicInteger commands = new AtomicInteger();
    DisposableServer slow = TcpServer.create().host("127.0.0.1").port(0)
        .doOnConnection(connection -> connections.incrementAndGet())
        .handle((in, out) -> out.sendString(in.receive().asString().flatMapSequential(sent -> {
          String reply = sent.contains("CL.THROTTLE") ? "-ERR late\r\n" : "+PONG\r\n";
          commands.incrementAndGet();
          return Mono.just(sent.replaceAll("[^*]", "").replace("*", reply))
              .delayElement(Duration.ofMillis(200));
        }))).bindNow();
    SluiceClient hasty = new SluiceClient(new SluiceProperties(
        "redis://127.0.0.1:" + slow.port(), Duration.ofMillis(50), DENY));
    try {
      long begin = System.nanoTime();
      repeat(hasty.throttle("k", 9, 1, 3600), decision -> System.nanoTime() - begin > 3_000_000_000L);
      Thread.sleep(2_500); // without a command
      int before = commands.get();
      repeat(hasty.throttle("k", 9, 1, 3600), decision -> commands.get() > before);
      assertThat(connections).hasValue(1);
    } finally {
      hasty.destroy();
      slow.disposeNow();
    }
  }

  private static void repeat(Mono<Decision> request, Predicate<Decision> until) {
    request.repeatWhen(answers -> answers.delayElements(Duration.ofMillis(20)))
        .takeUntil(until).blockLast(Duration.ofSeconds(30));
  }

  @Test
  void wrongPropertiesAreRefused() {
    SluiceProperties http = new SluiceProperties("http://x", Duration.ofMillis(1), DENY);
    assertThatThrownBy(() -> new SluiceClient(http)).isInstanceOf(IllegalArgumentException.class);
    SluiceProperties zero = new SluiceProperties("redis://x", Duration.ZERO, DENY);
    assertThatThrownBy(() -> new SluiceClient(zero)).hasMessageContaining("sluice.timeout");
  }
}
