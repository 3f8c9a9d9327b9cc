package sluice.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.mockito.Mockito.mock;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.cloud.gateway.filter.ratelimit.KeyResolver;
import org.springframework.cloud.gateway.filter.ratelimit.RateLimiter;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import reactor.core.publisher.Mono;
import reactor.netty.DisposableServer;
import reactor.netty.http.server.HttpServer;

@EnabledIfEnvironmentVariable(named = "SLUICE_BINARY", matches = ".+")
class GatewayTest {
  private static final String ROUTES = "spring.cloud.gateway.server.webflux.routes";
  private static final HttpClient HTTP = HttpClient.newHttpClient();
  private static SluiceServer sluice;
  private static DisposableServer application;
  private static final List<ConfigurableApplicationContext> gateways = new ArrayList<>();
  private static ConfigurableApplicationContext gateway;

  @Configuration(proxyBeanMethods = false)
  @EnableAutoConfiguration
  static class Gateway {
    @Bean
    KeyResolver user() {
      return exchange -> Mono.justOrEmpty(exchange.getRequest().getHeaders().getFirst("X-User-Id"));
    }

    @Bean
    RateLimiter<?> redisRateLimiter() { // Spring provides one of this name if it finds Redis
      return mock(RateLimiter.class);
    }
  }

  @BeforeAll
  static void start() throws Exception {
    sluice = new SluiceServer(0);
    application = HttpServer.create().host("127.0.0.1").port(0)
        .handle((request, response) -> response.sendString(Mono.just("application"))).bindNow();
    gateway = gateway(sluice.url(), "sluice.timeout=10s", "sluice.gateway.limit.requests=1",
        "sluice.gateway.limit.seconds=3600");
  }

  @AfterAll
  static void stop() throws Exception {
    gateways.forEach(ConfigurableApplicationContext::close); // the first ends the threads of all
    application.disposeNow();
    sluice.close();
  }

  private static ConfigurableApplicationContext gateway(String url, String... more) {
    String[] routes = {"default", "rule", "numbers", "user", "**"};
    SpringApplicationBuilder builder = new SpringApplicationBuilder(Gateway.class)
        .web(WebApplicationType.REACTIVE)
        .properties("server.port=0", "server.address=127.0.0.1", "sluice.url=" + url,
            ROUTES + "[1].filters[0].args[sluice.rule]=send-code",
            ROUTES + "[2].filters[0].args[sluice.requests]=1",
            ROUTES + "[2].filters[0].args[sluice.seconds]=60",
            ROUTES + "[2].filters[0].args[sluice.burst]=1",
            ROUTES + "[3].filters[0].args[attributes]=header.X-User-Id,query.q,cookie.c")
        .properties(ROUTES + "[5].id=shortcut", ROUTES + "[5].filters[0]=Sluice=user",
            ROUTES + "[5].uri=http://127.0.0.1:" + application.port(),
            ROUTES + "[5].predicates[0]=Path=/shortcut", ROUTES + "[5].order=-1")
        .properties(more);
    for (int i = 0; i < routes.length; ++i) {
      builder.properties(ROUTES + "[" + i + "].id=" + routes[i],
          ROUTES + "[" + i + "].uri=http://127.0.0.1:" + application.port(),
          ROUTES + "[" + i + "].predicates[0]=Path=/" + routes[i],
          ROUTES + "[" + i + "].filters[0].name=" + (i < 3 ? "RequestRateLimiter" : "Sluice"));
    }
    gateways.add(builder.run());
    return gateways.get(gateways.size() - 1);
  }

  private static HttpResponse<String> ask(ConfigurableApplicationContext of, String method, String path,
      String user) {
    String port = of.getEnvironment().getProperty("local.server.port");
    try {
      return HTTP.send(HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path))
          .method(method, HttpRequest.BodyPublishers.noBody()).header("X-User-Id", user).build(),
          HttpResponse.BodyHandlers.ofString());
    } catch (IOException | InterruptedException error) {
      throw new AssertionError(error);
    }
  }

  private static List<Integer> statuses(int count, String path, String user) {
    return IntStream.range(0, count)
        .mapToObj(i -> ask(gateway, "GET", path, user).statusCode()).toList();
  }

  private static String header(HttpResponse<String> response, String name) {
    return response.headers().firstValue(name).orElse(null);
  }

  @Test
  void rulesThatMatchDecideAndAreAnsweredAsJson() {
    HttpResponse<String> first = ask(gateway, "POST", "/login", "x");
    assertThat(first.body()).isEqualTo("application");
    assertThat(header(first, "X-RateLimit-Limit")).isEqualTo("1");
    assertThat(header(first, "X-RateLimit-Remaining")).isEqualTo("0");
    HttpResponse<String> second = ask(gateway, "POST", "/login", "x");
    assertThat(second.statusCode()).isEqualTo(429);
    assertThat(header(second, "Retry-After")).isEqualTo("3600");
    assertThat(header(second, "Content-Type")).isEqualTo("application/problem+json");
    assertThat(second.body()).contains("\"status\":429").contains("retryAfterMs");
    assertThat(statuses(3, "/login", "x")).containsOnly(200);
  }

  @Test
  void rulesReadTheHeadersOfTheConfiguration() {
    assertThat(statuses(3, "/user", "anna")).containsExactly(200, 200, 429);
    assertThat(statuses(1, "/user", "ben")).containsExactly(200);
  }

  @Test
  void aRouteNamesARule() {
    assertThat(statuses(3, "/rule", "anna")).containsExactly(200, 200, 429);
    assertThat(statuses(1, "/rule", "ben")).containsExactly(200);
  }

  @Test
  void aShortcutNamesARule() {
    assertThat(statuses(3, "/shortcut", "anna")).containsExactly(200, 200, 429);
  }

  @Test
  void aRouteHasNumbersOfItsOwn() {
    assertThat(statuses(3, "/numbers", "anna")).containsExactly(200, 200, 429);
    assertThat(header(ask(gateway, "GET", "/numbers", "anna"), "X-RateLimit-Limit")).isEqualTo("2");
  }

  @Test
  void routesAndKeysWithColonsHaveCountersOfTheirOwn() {
    SluiceRateLimiter limiter = gateway.getBean(SluiceRateLimiter.class);
    assertThat(limiter.isAllowed("a:b", "c").block().isAllowed()).isTrue();
    assertThat(limiter.isAllowed("a", "b:c").block().isAllowed()).isTrue();
    assertThat(limiter.isAllowed("a", "b:c").block().isAllowed()).isFalse();
  }

  @Test
  void anotherRouteHasTheDefault() {
    assertThat(statuses(2, "/default", "anna")).containsExactly(200, 429);
  }

  @Test
  void aPathThatHidesAnotherOneIsRefused() {
    for (String path : List.of("/a//login", "/a/./login", "/a/../login", "/a/%2e%2e/login", "/a/%2E",
        "/login;x", "/login;x=1", "/;x/login", "/a/..;/login")) {
      assertThat(ask(gateway, "POST", path, "x").statusCode()).as(path).isEqualTo(400);
    }
  }

  @Test
  void withoutSluiceOnFailureDecides() {
    ConfigurableApplicationContext open = gateway("redis://127.0.0.1:1");
    assertThat(ask(open, "GET", "/rule", "x").statusCode()).isEqualTo(200);
    assertThat(ask(open, "POST", "/login", "x").statusCode()).isEqualTo(200);
    ConfigurableApplicationContext closed =
        gateway("redis://127.0.0.1:1", "sluice.on-failure=deny");
    assertThat(ask(closed, "GET", "/rule", "x").statusCode()).isEqualTo(429);
    assertThat(ask(closed, "POST", "/login", "x").statusCode()).isEqualTo(503);
  }
}
