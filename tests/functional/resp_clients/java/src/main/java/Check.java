import com.google.gson.Gson;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.output.CommandOutput;
import io.lettuce.core.output.IntegerListOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.ProtocolVersion;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.util.SafeEncoder;

/**
 * Connects with Jedis and Lettuce, by each version of the protocol, to the port in the first argument,
 * with the password in the second if it is given. Prints the replies as one JSON object.
 */
public final class Check {
  private enum Command implements ProtocolCommand, ProtocolKeyword {
    THROTTLE("CL.THROTTLE"), LIMIT("RL.LIMIT");

    private final byte[] name;

    Command(String text) {
      name = text.getBytes(StandardCharsets.US_ASCII);
    }

    @Override
    public byte[] getRaw() {
      return name;
    }

    @Override
    public byte[] getBytes() {
      return name;
    }
  }

  private static int port;
  private static String password;

  public static void main(String[] arguments) throws Exception {
    port = Integer.parseInt(arguments[0]);
    password = arguments.length > 1 ? arguments[1] : null;
    Map<String, Object> out = new HashMap<>();
    for (int version = 2; version <= 3; ++version) {
      out.put("jedis, RESP" + version, jedis(version));
      out.put("lettuce, RESP" + version, lettuce(version));
    }
    System.out.println(new Gson().toJson(out));
  }

  private static Map<String, Object> jedis(int version) {
    DefaultJedisClientConfig config = DefaultJedisClientConfig.builder().password(password)
        .clientName("checks").protocol(version == 3 ? RedisProtocol.RESP3 : RedisProtocol.RESP2).build();
    String key = "jedis" + version;
    Map<String, Object> out = new HashMap<>();
    try (Jedis jedis = new Jedis(new HostAndPort("127.0.0.1", port), config)) {
      Pipeline pipeline = jedis.pipelined();
      List<Response<Object>> many = new ArrayList<>();
      for (int i = 0; i < 1000; ++i) {
        many.add(pipeline.sendCommand(Command.THROTTLE, key + "-many", "999", "1", "3600"));
      }
      pipeline.sync();
      out.put("remaining", many.stream().map(one -> ((List<?>) one.get()).get(2)).toList());
      out.put("first", jedis.sendCommand(Command.THROTTLE, key, "15", "30", "60"));
      Object limit = SafeEncoder.encodeObject(jedis.sendCommand(Command.LIMIT, key, "token_bucket", "10", "60s"));
      out.put("limit", limit.toString());
      try {
        jedis.sendCommand(Command.THROTTLE, key, "x", "1", "1");
      } catch (JedisDataException error) {
        out.put("error", error.getMessage());
      }
      out.put("ping", jedis.ping());
      out.put("name", jedis.clientGetname());
      try (Transaction transaction = jedis.multi()) {
        transaction.sendCommand(Command.THROTTLE, key, "15", "30", "60");
        transaction.exec();
      } catch (JedisDataException error) {
        out.put("transaction", error.getMessage());
      }
    }
    return out;
  }

  private static Map<String, Object> lettuce(int version) throws Exception {
    RedisURI.Builder uri = RedisURI.builder().withHost("127.0.0.1").withPort(port).withClientName("checks");
    if (password != null) {
      uri.withPassword(password.toCharArray());
    }
    RedisClient client = RedisClient.create(uri.build());
    client.setOptions(ClientOptions.builder()
        .protocolVersion(version == 3 ? ProtocolVersion.RESP3 : ProtocolVersion.RESP2).build());
    String key = "lettuce" + version;
    Map<String, Object> out = new HashMap<>();
    try (StatefulRedisConnection<String, String> connection = client.connect()) {
      List<RedisFuture<List<Long>>> many = new ArrayList<>();
      for (int i = 0; i < 1000; ++i) {
        many.add(throttle(connection, key + "-many", "999", "1", "3600"));
      }
      List<Long> remaining = new ArrayList<>();
      for (RedisFuture<List<Long>> one : many) {
        remaining.add(one.get().get(2));
      }
      out.put("remaining", remaining);
      out.put("first", throttle(connection, key, "15", "30", "60").get());
      out.put("limit", send(connection, Command.LIMIT, new ArrayOutput<>(StringCodec.UTF8), key,
          "token_bucket", "10", "60s").get().toString());
      try {
        throttle(connection, key, "x", "1", "1").get();
      } catch (ExecutionException error) {
        out.put("error", error.getCause().getMessage());
      }
      out.put("ping", connection.sync().ping());
      out.put("name", connection.sync().clientGetname());
      try {
        connection.sync().multi();
      } catch (RuntimeException error) {
        out.put("transaction", error.getMessage());
      }
    } finally {
      client.shutdown();
    }
    return out;
  }

  private static RedisFuture<List<Long>> throttle(
      StatefulRedisConnection<String, String> connection, String... arguments) {
    return send(connection, Command.THROTTLE, new IntegerListOutput<>(StringCodec.UTF8), arguments);
  }

  private static <T> RedisFuture<T> send(StatefulRedisConnection<String, String> connection,
      Command command, CommandOutput<String, String, T> output, String... arguments) {
    CommandArgs<String, String> all = new CommandArgs<>(StringCodec.UTF8);
    for (String argument : arguments) {
      all.add(argument);
    }
    return connection.async().dispatch(command, output, all);
  }
}
