import io.github.bucket4j.Bucket;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Bucket4j CASE KEYS admitted|denied OPERATIONS prints the nanoseconds of processor time per decision,
 * and the share of denied decisions. A program keeps one bucket for each key in a map.
 */
public final class Bucket4j {
    private static String[] keysInOrder(long count) {
        String[] keys = new String[1 << 18];
        long x = 1;
        for (int i = 0; i < keys.length; i++) {
            x = x * 6364136223846793005L + 1442695040888963407L;
            keys[i] = String.format("user:%010d", (x >>> 33) % count);
        }
        return keys;
    }

    private static long run(ConcurrentHashMap<String, Bucket> buckets, String[] keys, boolean many, long operations) {
        long denied = 0;
        for (long i = 0; i < operations; i++) {
            Bucket bucket = buckets.computeIfAbsent(keys[(int) i & (keys.length - 1)], key -> Bucket.builder()
                    .addLimit(limit -> many
                            ? limit.capacity(2).refillGreedy(2, Duration.ofHours(1))
                            : limit.capacity(1_000_000).refillGreedy(1, Duration.ofSeconds(1)))
                    .build());
            if (!bucket.tryConsume(1)) {
                denied++;
            }
        }
        return denied;
    }

    public static void main(String[] arguments) {
        String[] keys = keysInOrder(Long.parseLong(arguments[1]));
        boolean many = arguments[2].equals("denied");
        long operations = Long.parseLong(arguments[3]);
        var buckets = new ConcurrentHashMap<String, Bucket>();
        run(buckets, keys, many, 20L * keys.length); // the compiler of the virtual machine needs many
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long begin = system.getProcessCpuTime();
        long denied = run(buckets, keys, many, operations);
        long nanoseconds = system.getProcessCpuTime() - begin;
        System.out.println(String.format(Locale.ROOT, "%.2f %.4f", (double) nanoseconds / operations,
                (double) denied / operations));
    }
}
