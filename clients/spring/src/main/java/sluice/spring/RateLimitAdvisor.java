package sluice.spring;

import java.lang.reflect.Method;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Supplier;
import org.aopalliance.intercept.MethodInterceptor;
import org.aopalliance.intercept.MethodInvocation;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;
import org.reactivestreams.Publisher;
import org.springframework.aop.ProxyMethodInvocation;
import org.springframework.aop.support.AopUtils;
import org.springframework.aop.support.StaticMethodMatcherPointcutAdvisor;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.context.expression.BeanFactoryResolver;
import org.springframework.context.expression.MethodBasedEvaluationContext;
import org.springframework.core.DefaultParameterNameDiscoverer;
import org.springframework.core.MethodClassKey;
import org.springframework.core.Ordered;
import org.springframework.core.ParameterNameDiscoverer;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.expression.EvaluationException;
import org.springframework.expression.Expression;
import org.springframework.expression.ParseException;
import org.springframework.expression.spel.standard.SpelExpressionParser;
import org.springframework.util.StringUtils;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Applies {@link RateLimit} to the methods of beans. Thread-safe. */
final class RateLimitAdvisor extends StaticMethodMatcherPointcutAdvisor
    implements MethodInterceptor {
  private static final Log LOG = LogFactory.getLog(RateLimitAdvisor.class);
  private static final SpelExpressionParser PARSER = new SpelExpressionParser();
  private static final ParameterNameDiscoverer NAMES = new DefaultParameterNameDiscoverer();

  private final Supplier<SluiceClient> client;
  private final BeanFactoryResolver beans;
  private final Map<MethodClassKey, Limited> limited = new ConcurrentHashMap<>();

  /** A method with the annotation. The key is null if the annotation has none. */
  private record Limited(Method method, RateLimit limit, Expression key, AtomicBoolean warned) {
  }

  RateLimitAdvisor(Supplier<SluiceClient> client, BeanFactory factory) {
    this.client = client;
    beans = new BeanFactoryResolver(factory);
    setAdvice(this);
    setOrder(Ordered.LOWEST_PRECEDENCE - 10); // before a transaction begins
  }

  @Override
  public boolean matches(Method method, Class<?> type) {
    return limited(method, type) != null;
  }

  /** Returns null if the method has no annotation. */
  private Limited limited(Method method, Class<?> type) {
    return limited.computeIfAbsent(new MethodClassKey(method, type), key -> {
      Method specific = AopUtils.getMostSpecificMethod(method, type);
      RateLimit limit = AnnotatedElementUtils.findMergedAnnotation(specific, RateLimit.class);
      return limit == null ? null : parsed(specific, limit);
    });
  }

  private static Limited parsed(Method method, RateLimit limit) {
    try {
      Expression key = limit.key().isEmpty() ? null : PARSER.parseExpression(limit.key());
      return new Limited(method, limit, key, new AtomicBoolean());
    } catch (ParseException error) {
      throw wrong(method, limit, "is not an expression: " + error.getMessage(), error);
    }
  }

  @Override
  public Object invoke(MethodInvocation call) throws Throwable {
    Limited method = limited(call.getMethod(), AopUtils.getTargetClass(call.getThis()));
    Mono<Decision> decision = Mono
        .defer(() -> client.get().check(method.limit().rule(), attributes(method, call)))
        .map(answer -> admitted(answer, method))
        .delayUntil(Decision::pause);
    Class<?> result = call.getMethod().getReturnType();
    if (result == Mono.class) {
      return decision.flatMap(answer -> Mono.from(proceed(call)));
    }
    if (result == Flux.class) {
      return decision.flatMapMany(answer -> proceed(call));
    }
    decision.block();
    return call.proceed();
  }

  private static Decision admitted(Decision answer, Limited method) {
    RateLimit limit = method.limit();
    answer.orThrow(limit.rule(), limit.message());
    if (answer.isDecided() && answer.limit() < 0 && method.key() != null
        && method.warned().compareAndSet(false, true)) {
      LOG.warn("@RateLimit of " + method.method() + ": no enforced limit of the rule \"" + limit.rule()
          + "\" applied. Does one of them read the attribute \"" + limit.attribute() + "\"?");
    }
    return answer;
  }

  /** Calls the method. Each subscription of its publisher needs a copy of the call. */
  private static Publisher<?> proceed(MethodInvocation call) {
    try {
      return (Publisher<?>) ((ProxyMethodInvocation) call).invocableClone().proceed();
    } catch (Throwable error) {
      return Mono.error(error);
    }
  }

  private Map<String, String> attributes(Limited method, MethodInvocation call) {
    if (method.key() == null) {
      return Map.of();
    }
    var context =
        new MethodBasedEvaluationContext(call.getThis(), method.method(), call.getArguments(), NAMES);
    context.setBeanResolver(beans);
    String key;
    try {
      key = method.key().getValue(context, String.class);
    } catch (EvaluationException error) {
      throw wrong(method.method(), method.limit(), "cannot be evaluated: " + error.getMessage(), error);
    }
    if (!StringUtils.hasLength(key)) { // an empty attribute is absent: its limit would not apply
      throw wrong(method.method(), method.limit(), key == null ? "is null" : "is empty", null);
    }
    return Map.of(method.limit().attribute(), key);
  }

  private static IllegalStateException wrong(
      Method method, RateLimit limit, String what, Exception cause) {
    String[] names = NAMES.getParameterNames(method);
    return new IllegalStateException("@RateLimit(key = \"" + limit.key() + "\") of "
        + method.getDeclaringClass().getName() + "." + method.getName() + " " + what + ". "
        + (names == null ? "The names of the parameters are unknown: compile with -parameters"
            : "The parameters are: " + String.join(", ", names)), cause);
  }
}
