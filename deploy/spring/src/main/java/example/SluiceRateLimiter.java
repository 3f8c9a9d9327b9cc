package example;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.IntegerListOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.cloud.gateway.filter.ratelimit.AbstractRateLimiter;
import org.springframework.cloud.gateway.support.ConfigurationService;
import org.springframework.stereotype.Component;
import reactor.core.publisher.Mono;

/**
 * The limits of the filter RequestRateLimiter, which are in the configuration of the gateway. Each
 * request is one CL.THROTTLE. If Sluice does not answer in time, the request passes.
 */
@Component("sluice")
class SluiceRateLimiter extends AbstractRateLimiter<SluiceRateLimiter.Limit> {
  private static final Duration TIMEOUT = Duration.ofMillis(100);
  private final Mono<StatefulRedisConnection<String, String>> connection;

  SluiceRateLimiter(@Value("${sluice.resp}") String url, ConfigurationService configuration) {
    super(Limit.class, "sluice", configuration);
    RedisClient client = RedisClient.create();
    client.setOptions(ClientOptions.builder()
        .disconnectedBehavior(ClientOptions.DisconnectedBehavior.REJECT_COMMANDS).build());
    connection = Mono.defer(() -> Mono.fromCompletionStage(
        client.connectAsync(StringCodec.UTF8, RedisURI.create(url)))).cacheInvalidateIf(c -> false);
  }

  @Override
  public Mono<Response> isAllowed(String route, String key) {
    Limit limit = getConfig().get(route);
    CommandArgs<String, String> arguments = new CommandArgs<>(StringCodec.UTF8)
        .addKey(route + ":" + key).add(limit.burst).add(limit.requests).add(limit.seconds);
    return connection.flatMap(c -> Mono.fromCompletionStage(c.async().dispatch(
            Command.CL_THROTTLE, new IntegerListOutput<>(StringCodec.UTF8), arguments)))
        .map(SluiceRateLimiter::response)
        .timeout(TIMEOUT)
        .onErrorReturn(new Response(true, Map.of()));
  }

  /** The reply: limited, limit, remaining, seconds until retry (or -1), seconds until full. */
  private static Response response(List<Long> reply) {
    Map<String, String> headers = new HashMap<>();
    headers.put("X-RateLimit-Limit", reply.get(1).toString());
    headers.put("X-RateLimit-Remaining", reply.get(2).toString());
    if (reply.get(3) >= 0) {
      headers.put("Retry-After", reply.get(3).toString());
    }
    return new Response(reply.get(0) == 0, headers);
  }

  private enum Command implements ProtocolKeyword {
    CL_THROTTLE;

    @Override
    public byte[] getBytes() {
      return "CL.THROTTLE".getBytes(StandardCharsets.US_ASCII);
    }
  }

  /** `requests` per `seconds`, and `burst` more at once. */
  static class Limit {
    private int burst;
    private int requests = 1;
    private int seconds = 1;

    public void setBurst(int value) {
      burst = value;
    }

    public void setRequests(int value) {
      requests = value;
    }

    public void setSeconds(int value) {
      seconds = value;
    }
  }
}
