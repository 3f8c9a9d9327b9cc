package sluice.spring;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SocketOptions;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.ProtocolVersion;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.core.NestedExceptionUtils;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * Asks Sluice for decisions over one connection, which all threads share. Thread-safe.
 *
 * <p>A decision is one command and its reply; commands of several threads are sent without waiting
 * for each other's replies. A returned {@link Mono} sends the command each time it is subscribed to.
 * It never fails and never takes longer than {@link SluiceProperties#timeout()}: if Sluice is gone or
 * late, or answers with an error, such as that for an unknown rule,
 * {@link SluiceProperties#onFailure()} decides, and a warning is logged at most every 10 seconds. A
 * command is sent once; Sluice may have counted one that was too late. The subscriber continues on a
 * thread of {@link Schedulers#parallel()}, where Reactor refuses to block.
 *
 * <p>The constructor begins to connect. If the connection ends, requests open it again, at most every
 * 200 ms.
 */
public final class SluiceClient implements DisposableBean {
  private static final Log LOG = LogFactory.getLog(SluiceClient.class);
  private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(2);
  private static final long RECONNECT_NANOS = Duration.ofMillis(200).toNanos();
  private static final long SILENCE_NANOS = Duration.ofSeconds(2).toNanos();
  private static final long LOG_NANOS = Duration.ofSeconds(10).toNanos();
  private static final long NOTHING_SENT = 0;
  private static final int MOST_PENDING = 20_000;

  private final SluiceProperties properties;
  private final RedisURI uri;
  private final RedisClient client;
  private final AtomicLong nextLog = new AtomicLong(System.nanoTime());
  private CompletableFuture<StatefulRedisConnection<String, String>> connection; // guarded by this
  private long lastConnect; // guarded by this
  /** When the first command since the last reply was sent. */
  private final AtomicLong firstSend = new AtomicLong(NOTHING_SENT);

  /** @throws IllegalArgumentException if the URL is malformed or the timeout is not positive */
  public SluiceClient(SluiceProperties properties) {
    if (properties.timeout().isNegative() || properties.timeout().isZero()) {
      throw new IllegalArgumentException(
          "sluice.timeout must be positive, not " + properties.timeout());
    }
    this.properties = properties;
    uri = RedisURI.create(properties.url());
    uri.setTimeout(CONNECT_TIMEOUT);
    client = RedisClient.create();
    client.setOptions(ClientOptions.builder()
        .autoReconnect(false) // it would send requests again that Sluice may have counted
        .protocolVersion(ProtocolVersion.RESP2)
        .requestQueueSize(MOST_PENDING)
        .socketOptions(SocketOptions.builder().connectTimeout(CONNECT_TIMEOUT).build())
        .build());
    connection();
  }

  /**
   * Decides by the rules of Sluice: {@code RL.CHECK}. Takes one unit.
   *
   * @param rule the name of a rule, or {@code *} for the rules that match the attributes
   * @param attributes what rules match and count by. An empty value counts as absent
   */
  public Mono<Decision> check(String rule, Map<String, String> attributes) {
    CommandArgs<String, String> arguments = new CommandArgs<>(StringCodec.UTF8).add(rule);
    attributes.forEach((name, value) -> arguments.add(name).add(value));
    return ask(Command.CHECK, arguments, SluiceClient::checked);
  }

  /**
   * Decides by a limit in the arguments: {@code CL.THROTTLE}. Takes one unit.
   *
   * @param key the key of the counter
   * @param burst how many requests pass at once, in addition to the first
   * @param count how many requests pass per {@code seconds}
   */
  public Mono<Decision> throttle(String key, long burst, long count, long seconds) {
    CommandArgs<String, String> arguments =
        new CommandArgs<>(StringCodec.UTF8).add(key).add(burst).add(count).add(seconds);
    return ask(Command.THROTTLE, arguments, SluiceClient::throttled);
  }

  /** Closes the connection. */
  @Override
  public void destroy() {
    client.shutdown(Duration.ZERO, CONNECT_TIMEOUT);
  }

  private Mono<Decision> ask(Command command, CommandArgs<String, String> arguments,
      Function<List<Object>, Decision> read) {
    return Mono.defer(() -> Mono.fromFuture(connection(), true))
        .flatMap(open -> Mono.fromFuture(() -> send(open, command, arguments)))
        .timeout(properties.timeout(), Mono.error(
            () -> new TimeoutException("no answer within " + properties.timeout().toMillis() + " ms")))
        .doOnError(TimeoutException.class, late -> closeIfSilent())
        .map(read)
        .onErrorResume(error -> Mono.just(withoutSluice(error)))
        .publishOn(Schedulers.parallel()); // the thread of the connection must read replies
  }

  /**
   * Late replies and errors of Sluice are replies, too: they show that the connection works. A permit
   * is released before the reply is passed on: nobody would release it when the request ends.
   */
  private CompletableFuture<List<Object>> send(StatefulRedisConnection<String, String> open,
      Command command, CommandArgs<String, String> arguments) {
    firstSend.compareAndSet(NOTHING_SENT, System.nanoTime());
    CompletableFuture<List<Object>> answer = open.async()
        .dispatch(command, new ArrayOutput<>(StringCodec.UTF8), arguments).toCompletableFuture();
    return answer.whenComplete((reply, error) -> {
      if (error == null || error instanceof RedisCommandExecutionException) {
        firstSend.set(NOTHING_SENT);
      }
      if (error == null && values(reply).get("permit") instanceof String permit) {
        open.async().dispatch(Command.RELEASE, new ArrayOutput<>(StringCodec.UTF8),
            new CommandArgs<>(StringCodec.UTF8).add(permit));
      }
    }).copy(); // a request that is too late cancels only the copy
  }

  private synchronized CompletableFuture<StatefulRedisConnection<String, String>> connection() {
    boolean failed = connection == null || connection.isCompletedExceptionally();
    boolean closed = !failed && connection.isDone() && !connection.join().isOpen();
    if (connection == null
        || (failed || closed) && System.nanoTime() - lastConnect > RECONNECT_NANOS) {
      if (closed) {
        connection.join().closeAsync(); // the client of Lettuce would keep it
      }
      lastConnect = System.nanoTime();
      firstSend.set(NOTHING_SENT);
      connection = client.connectAsync(StringCodec.UTF8, uri).toCompletableFuture();
    }
    return connection;
  }

  /** Closes a connection that is open but silent: the machine of Sluice may be gone. */
  private synchronized void closeIfSilent() {
    long since = firstSend.get();
    if (since != NOTHING_SENT && System.nanoTime() - since > SILENCE_NANOS && connection.isDone()
        && !connection.isCompletedExceptionally()) {
      connection.join().closeAsync();
    }
  }

  private Decision withoutSluice(Throwable error) {
    boolean allowed = properties.onFailure() == SluiceProperties.OnFailure.ALLOW;
    long now = System.nanoTime();
    long next = nextLog.get();
    if (now - next >= 0 && nextLog.compareAndSet(next, now + LOG_NANOS)) {
      LOG.warn("Sluice at " + uri.getHost() + ":" + uri.getPort() + " did not decide, so requests are "
          + (allowed ? "allowed: " : "denied: ") + NestedExceptionUtils.getMostSpecificCause(error));
    }
    return Decision.unavailable(allowed);
  }

  /** The reply of RL.CHECK: names and values, and the same for each limit in `limits`. */
  private static Decision checked(List<Object> reply) {
    Map<Object, Object> values = values(reply);
    if (values.containsKey("permit")) {
      throw new IllegalStateException("a limit of the rule \"" + values.get("rule")
          + "\" counts concurrent requests, which this library cannot");
    }
    boolean allowed = "allowed".equals(values.get("outcome"));
    return new Decision(allowed, (String) values.get("reason"), number(values.get("limit"), -1),
        number(values.get("remaining"), -1), time(values.get("reset_after_ms")),
        time(values.get("retry_after_ms")),
        Duration.ofMillis(number(values.get("delay_ms"), 0)));
  }

  private static Map<Object, Object> values(List<Object> reply) {
    Map<Object, Object> values = new HashMap<>();
    for (int i = 0; i + 1 < reply.size(); i += 2) {
      values.put(reply.get(i), reply.get(i + 1));
    }
    return values;
  }

  /** The reply of CL.THROTTLE: limited, limit, remaining, seconds until retry or -1, until full. */
  private static Decision throttled(List<Object> reply) {
    boolean allowed = (Long) reply.get(0) == 0;
    long retryAfter = (Long) reply.get(3);
    return new Decision(allowed, allowed ? "ok" : "limited", (Long) reply.get(1), (Long) reply.get(2),
        Optional.of(Duration.ofSeconds((Long) reply.get(4))),
        retryAfter < 0 ? Optional.empty() : Optional.of(Duration.ofSeconds(retryAfter)), Duration.ZERO);
  }

  private static long number(Object value, long otherwise) {
    return value == null ? otherwise : (Long) value;
  }

  private static Optional<Duration> time(Object milliseconds) {
    return Optional.ofNullable((Long) milliseconds).map(Duration::ofMillis);
  }

  private enum Command implements ProtocolKeyword {
    CHECK("RL.CHECK"), RELEASE("RL.RELEASE"), THROTTLE("CL.THROTTLE");

    private final byte[] bytes;

    Command(String name) {
      bytes = name.getBytes(StandardCharsets.US_ASCII);
    }

    @Override
    public byte[] getBytes() {
      return bytes;
    }
  }
}
