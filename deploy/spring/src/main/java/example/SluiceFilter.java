package example;

import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.cloud.gateway.filter.GatewayFilterChain;
import org.springframework.cloud.gateway.filter.GlobalFilter;
import org.springframework.http.HttpStatus;
import org.springframework.http.HttpStatusCode;
import org.springframework.http.ResponseEntity;
import org.springframework.http.server.reactive.ServerHttpRequest;
import org.springframework.stereotype.Component;
import org.springframework.web.reactive.function.client.ClientResponse;
import org.springframework.web.reactive.function.client.WebClient;
import org.springframework.web.server.ServerWebExchange;
import org.springframework.web.util.UriUtils;
import reactor.core.publisher.Mono;

/**
 * Decides each request of all routes by the rules of Sluice: POST /v1/check. If Sluice does not
 * answer in time, the request passes.
 */
@Component
class SluiceFilter implements GlobalFilter {
  private static final Duration TIMEOUT = Duration.ofMillis(200);
  private static final Pattern UNUSUAL = Pattern.compile("//|/\\.\\.?(/|$)");
  private final WebClient sluice;

  SluiceFilter(WebClient.Builder client, @Value("${sluice.http}") String url) {
    sluice = client.baseUrl(url).build();
  }

  @Override
  public Mono<Void> filter(ServerWebExchange exchange, GatewayFilterChain chain) {
    String path = UriUtils.decode(exchange.getRequest().getPath().value(), StandardCharsets.UTF_8);
    if (UNUSUAL.matcher(path).find()) { // the application may resolve it to the path of another rule
      return refuse(exchange, HttpStatus.BAD_REQUEST);
    }
    return sluice.post().uri("/v1/check")
        .bodyValue(Map.of("attributes", attributes(exchange.getRequest(), path)))
        .exchangeToMono(ClientResponse::toBodilessEntity)
        .timeout(TIMEOUT)
        .onErrorReturn(ResponseEntity.ok().build())
        .flatMap(decision -> {
          for (String name : List.of("RateLimit-Policy", "RateLimit", "Retry-After")) {
            decision.getHeaders().getOrEmpty(name)
                .forEach(value -> exchange.getResponse().getHeaders().add(name, value));
          }
          return decision.getStatusCode().is4xxClientError()
              ? refuse(exchange, decision.getStatusCode()) : chain.filter(exchange);
        });
  }

  /** What rules can match and count by. */
  private static Map<String, String> attributes(ServerHttpRequest request, String path) {
    Map<String, String> attributes = new HashMap<>();
    attributes.put("method", request.getMethod().name());
    attributes.put("path", path);
    InetSocketAddress peer = request.getRemoteAddress();
    attributes.put("ip", peer.getAddress().getHostAddress());
    for (String name : List.of("user-agent", "x-user-id")) {
      request.getHeaders().getOrEmpty(name).forEach(value -> attributes.put("header." + name, value));
    }
    return attributes;
  }

  private static Mono<Void> refuse(ServerWebExchange exchange, HttpStatusCode status) {
    exchange.getResponse().setStatusCode(status);
    return exchange.getResponse().setComplete();
  }
}
