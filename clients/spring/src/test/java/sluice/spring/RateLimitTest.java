package sluice.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.expression.ParseException;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

@ExtendWith(OutputCaptureExtension.class)
@EnabledIfEnvironmentVariable(named = "SLUICE_BINARY", matches = ".+")
class RateLimitTest {
  private static SluiceServer sluice;

  @BeforeAll
  static void start() throws Exception {
    sluice = new SluiceServer(0);
  }

  @AfterAll
  static void stop() throws Exception {
    sluice.close();
  }

  record Email(String address) {
  }

  interface Exports {
    void export(String user);
  }

  static class Jdk implements Exports {
    @Override
    @RateLimit(rule = "send-code", key = "#user")
    public void export(String user) {
    }
  }

  static class Shop {
    private final AtomicInteger calls = new AtomicInteger();

    public int calls() {
      return calls.get();
    }

    @RateLimit(rule = "send-code", key = "#email.address", message = "Too many codes")
    public int sendCode(Email email) {
      return calls.incrementAndGet();
    }

    @RateLimit(rule = "send-code", key = "#p0")
    public Mono<Integer> one(String key) {
      return Mono.fromSupplier(calls::incrementAndGet);
    }

    @RateLimit(rule = "send-code", key = "#key")
    public Flux<Integer> many(String key) {
      return Flux.just(calls.incrementAndGet(), calls.incrementAndGet());
    }

    @RateLimit(rule = "login", key = "@addresses.current() + suffix()", attribute = "ip")
    public void login() {
    }

    public String suffix() {
      return "7";
    }

    @RateLimit(rule = "send-code", key = "#emial.address")
    public void misspelled(Email email) {
    }

    @RateLimit(rule = "login", key = "#key")
    public void wrongAttribute(String key) {
    }

    @RateLimit(rule = "queue")
    public void queued() {
    }

    @RateLimit(rule = "closed")
    public void free() {
    }
  }

  static class Addresses {
    public String current() {
      return "192.0.2.";
    }
  }

  static class Unparsable {
    @RateLimit(rule = "send-code", key = "#email.")
    public void sendCode(Email email) {
    }
  }

  private static ApplicationContextRunner application(Class<?> bean) {
    return new ApplicationContextRunner()
        .withConfiguration(AutoConfigurations.of(
            SluiceAutoConfiguration.class, SluiceGatewayAutoConfiguration.class))
        .withBean(bean).withBean("addresses", Addresses.class)
        .withPropertyValues("sluice.url=" + sluice.url(), "sluice.timeout=10s");
  }

  private static void withShop(Consumer<Shop> test) {
    application(Shop.class).run(context -> test.accept(context.getBean(Shop.class)));
  }

  @Test
  void aMethodIsLimitedByItsKey() {
    withShop(shop -> {
      Email anna = new Email("anna@example.org");
      assertThat(shop.sendCode(anna)).isEqualTo(1);
      assertThat(shop.sendCode(anna)).isEqualTo(2);
      assertThatThrownBy(() -> shop.sendCode(anna))
          .isInstanceOfSatisfying(RateLimitExceededException.class, denied -> {
            assertThat(denied).hasMessage("Too many codes");
            assertThat(denied.getRule()).isEqualTo("send-code");
            assertThat(denied.getLimit()).isEqualTo(2);
            assertThat(denied.getRemaining()).isZero();
            assertThat(denied.getRetryAfter().orElseThrow())
                .isBetween(Duration.ofMinutes(59), Duration.ofHours(1));
          });
      assertThat(shop.sendCode(new Email("ben@example.org"))).isEqualTo(3);
    });
  }

  @Test
  void aMonoAsksAtEachSubscription() {
    withShop(shop -> {
      Mono<Integer> one = shop.one("mono");
      assertThat(one.block()).isEqualTo(1);
      assertThat(one.block()).isEqualTo(2);
      assertThatThrownBy(one::block).isInstanceOf(RateLimitExceededException.class);
      assertThat(shop.calls()).isEqualTo(2);
    });
  }

  @Test
  void aMethodAfterAMonoDoesNotBlockTheConnection() {
    withShop(shop -> {
      Mono<Integer> outer = shop.one("outer");
      assertThatIllegalStateException()
          .isThrownBy(() -> outer.map(i -> shop.sendCode(new Email("inner"))).block())
          .withMessageContaining("blocking");
      assertThat(shop.calls()).isEqualTo(1);
      assertThat(outer.publishOn(Schedulers.boundedElastic())
          .map(i -> shop.sendCode(new Email("inner"))).block()).isEqualTo(3);
    });
  }

  @Test
  void aFluxAsksAtEachSubscription() {
    withShop(shop -> {
      Flux<Integer> many = shop.many("flux");
      assertThat(many.collectList().block()).containsExactly(1, 2);
      assertThat(many.collectList().block()).containsExactly(3, 4);
      assertThatThrownBy(many::blockLast).isInstanceOf(RateLimitExceededException.class);
    });
  }

  @Test
  void aKeyReadsBeansAndTheObjectAndNamesItsAttribute() {
    application(Shop.class).run(context -> {
      Shop shop = context.getBean(Shop.class);
      shop.login();
      assertThatThrownBy(shop::login).isInstanceOf(RateLimitExceededException.class);
      assertThat(context.getBean(SluiceClient.class).check("login", Map.of("ip", "192.0.2.7")).block())
          .extracting(Decision::allowed).isEqualTo(false);
    });
  }

  @Test
  void aProxyOfAnInterfaceIsLimitedToo() {
    application(Jdk.class).run(context -> {
      Exports exports = context.getBean(Exports.class);
      exports.export("jdk");
      exports.export("jdk");
      assertThatThrownBy(() -> exports.export("jdk")).isInstanceOf(RateLimitExceededException.class);
    });
  }

  @Test
  void aQueueDelaysTheCall() {
    withShop(shop -> {
      long begin = System.nanoTime();
      for (int i = 0; i < 4; ++i) {
        shop.queued();
      }
      assertThat(System.nanoTime() - begin).isGreaterThan(100_000_000L); // 20 in a second
    });
  }

  @Test
  void aWrongKeyIsAClearError() {
    withShop(shop -> {
      assertThatIllegalStateException().isThrownBy(() -> shop.misspelled(new Email("a")))
          .withMessageContaining("#emial.address").withMessageContaining("Shop.misspelled")
          .withMessageContaining("The parameters are: email");
      assertThatIllegalStateException().isThrownBy(() -> shop.sendCode(new Email(null)))
          .withMessageContaining("is null");
      assertThatIllegalStateException().isThrownBy(() -> shop.sendCode(new Email("")))
          .withMessageContaining("is empty");
      assertThat(shop.calls()).isZero();
    });
  }

  @Test
  void anAttributeThatTheRuleDoesNotReadIsLogged(CapturedOutput output) {
    withShop(shop -> {
      shop.wrongAttribute("anna");
      assertThat(output).contains("wrongAttribute").contains("read the attribute \"key\"?");
    });
  }

  @Test
  void aKeyThatCannotBeParsedFailsAtTheStart() {
    application(Unparsable.class).run(context ->
        assertThat(context).getFailure().hasRootCauseInstanceOf(ParseException.class));
  }

  @Test
  void aProgramWithoutWebHasNoHandler() {
    application(Addresses.class).withClassLoader(new FilteredClassLoader(
        "org.springframework.web", "org.springframework.http", "org.springframework.cloud"))
        .run(context -> {
          assertThat(context).hasSingleBean(SluiceClient.class).doesNotHaveBean("rateLimitExceptionHandler");
        });
  }

  @Test
  void withoutSluiceOnFailureDecides() {
    application(Shop.class).withPropertyValues("sluice.url=redis://127.0.0.1:1").run(context ->
        context.getBean(Shop.class).free());
    application(Shop.class)
        .withPropertyValues("sluice.url=redis://127.0.0.1:1", "sluice.on-failure=deny").run(context ->
            assertThatThrownBy(context.getBean(Shop.class)::free)
                .isInstanceOf(SluiceUnavailableException.class));
  }
}
