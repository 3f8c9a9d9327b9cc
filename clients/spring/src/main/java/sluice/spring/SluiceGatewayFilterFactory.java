package sluice.spring;

import io.netty.util.NetUtil;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;
import org.springframework.cloud.gateway.filter.GatewayFilter;
import org.springframework.cloud.gateway.filter.GatewayFilterChain;
import org.springframework.cloud.gateway.filter.factory.AbstractGatewayFilterFactory;
import org.springframework.http.HttpCookie;
import org.springframework.http.HttpStatus;
import org.springframework.http.server.reactive.ServerHttpRequest;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.util.UriUtils;
import reactor.core.publisher.Mono;

/**
 * The filter {@code Sluice} of Spring Cloud Gateway: decides requests by the rules of Sluice.
 * Thread-safe. A request is one round trip.
 *
 * <p>Rules can read {@code method}, {@code path} (decoded), {@code host}, {@code ip} and the
 * {@link Config#setAttributes attributes} of the configuration. Responses have the {@code X-RateLimit}
 * fields. A denied request fails with a {@link RateLimitExceededException}, or a
 * {@link SluiceUnavailableException}, which {@link RateLimitExceptionHandler} answers. A path with
 * {@code //}, {@code /./}, {@code /../} or parameters ({@code ;}) is answered with 400, since the
 * predicates of routes or the application could take it for the path of another rule.
 */
public class SluiceGatewayFilterFactory
    extends AbstractGatewayFilterFactory<SluiceGatewayFilterFactory.Config> {
  private static final Pattern UNUSUAL = Pattern.compile("//|/\\.\\.?(/|$)");
  private static final Pattern AROUND_HOST = Pattern.compile("^\\[|]$|\\.$");
  private final SluiceClient client;

  public SluiceGatewayFilterFactory(SluiceClient client) {
    super(Config.class);
    this.client = client;
  }

  @Override
  public List<String> shortcutFieldOrder() {
    return List.of("rule");
  }

  @Override
  public GatewayFilter apply(Config config) {
    return (exchange, chain) -> filter(exchange, chain, config);
  }

  private Mono<Void> filter(ServerWebExchange exchange, GatewayFilterChain chain, Config config) {
    String raw = exchange.getRequest().getPath().value();
    String path = UriUtils.decode(raw, StandardCharsets.UTF_8);
    if (raw.indexOf(';') >= 0 || UNUSUAL.matcher(path).find()) {
      exchange.getResponse().setStatusCode(HttpStatus.BAD_REQUEST);
      return exchange.getResponse().setComplete();
    }
    return client.check(config.rule, attributes(exchange.getRequest(), path, config))
        .delayUntil(Decision::pause)
        .flatMap(decision -> {
          decision.orThrow(config.rule, "Too many requests");
          exchange.getResponse().getHeaders().setAll(decision.headers());
          return chain.filter(exchange);
        });
  }

  private static Map<String, String> attributes(ServerHttpRequest request, String path, Config config) {
    Map<String, String> attributes = new HashMap<>();
    attributes.put("method", request.getMethod().name());
    attributes.put("path", path);
    put(attributes, "host", request.getURI().getHost() == null ? null
        : AROUND_HOST.matcher(request.getURI().getHost().toLowerCase(Locale.ROOT)).replaceAll(""));
    put(attributes, "ip", ip(request.getRemoteAddress()));
    for (String attribute : config.attributes) {
      String name = attribute.substring(attribute.indexOf('.') + 1);
      if (attribute.startsWith("header.")) {
        List<String> values = request.getHeaders().get(name);
        put(attributes, attribute.toLowerCase(Locale.ROOT),
            values == null ? null : String.join(", ", values));
      } else if (attribute.startsWith("query.")) {
        put(attributes, attribute, request.getQueryParams().getFirst(name));
      } else {
        HttpCookie cookie = request.getCookies().getFirst(name);
        put(attributes, attribute, cookie == null ? null : cookie.getValue());
      }
    }
    return attributes;
  }

  private static void put(Map<String, String> attributes, String name, String value) {
    if (value != null) {
      attributes.put(name, value);
    }
  }

  /** Addresses that Spring reads from Forwarded headers are not resolved. */
  private static String ip(InetSocketAddress peer) {
    if (peer == null) {
      return null;
    }
    return peer.isUnresolved() ? peer.getHostString() : NetUtil.toAddressString(peer.getAddress());
  }

  /** The arguments of the filter. */
  public static class Config {
    private String rule = "*";
    private List<String> attributes = List.of();

    /** The name of a rule; by default {@code *}: the rules that match the request. */
    public void setRule(String value) {
      rule = value;
    }

    /**
     * More attributes, such as {@code header.x-user-id}, {@code query.token} or {@code cookie.session}.
     * Clients control all of them, unless an earlier filter sets them.
     *
     * @throws IllegalArgumentException if an attribute is something else
     */
    public void setAttributes(List<String> value) {
      for (String attribute : value) {
        if (!attribute.matches("(header|query|cookie)\\..+")) {
          throw new IllegalArgumentException("the attribute \"" + attribute
              + "\" of the filter Sluice does not begin with header., query. or cookie.");
        }
      }
      attributes = List.copyOf(value);
    }
  }
}
