package sluice.spring;

import java.time.Duration;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * How to reach Sluice: {@code sluice.*}.
 *
 * @param url the RESP front end: {@code redis://[[user:]password@]host:port}, or {@code rediss://}
 *     with TLS
 * @param timeout the deadline of a decision, which includes the time to connect
 * @param onFailure what happens to a request if Sluice has not decided by then
 */
@ConfigurationProperties("sluice")
public record SluiceProperties(
    @DefaultValue("redis://127.0.0.1:6380") String url,
    @DefaultValue("100ms") Duration timeout,
    @DefaultValue("allow") OnFailure onFailure) {

  /** What happens to a request if Sluice is gone, is too late, or answers with an error. */
  public enum OnFailure {
    /** The request passes. */
    ALLOW,
    /** The request is denied: an annotated method throws a {@link SluiceUnavailableException}. */
    DENY
  }
}
