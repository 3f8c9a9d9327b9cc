// peers CASE KEYS admitted|denied OPERATIONS prints the nanoseconds of processor time per decision of
// golang.org/x/time/rate, and the share of denied decisions. rate.Limiter has no keys: a program
// keeps one for each key in a map with a mutex.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/time/rate"
)

type limiters struct {
	mutex sync.Mutex
	byKey map[string]*rate.Limiter
	limit rate.Limit
	burst int
}

func (l *limiters) allow(key string) bool {
	l.mutex.Lock()
	limiter, found := l.byKey[key]
	if !found {
		limiter = rate.NewLimiter(l.limit, l.burst)
		l.byKey[key] = limiter
	}
	l.mutex.Unlock()
	return limiter.Allow()
}

func processTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// keysInOrder returns random keys in the order of their use. The programs of all languages make the
// same ones.
func keysInOrder(count uint64) []string {
	keys := make([]string, 1<<18)
	x := uint64(1)
	for i := range keys {
		x = x*6364136223846793005 + 1442695040888963407
		keys[i] = fmt.Sprintf("user:%010d", (x>>33)%count)
	}
	return keys
}

func main() {
	count, _ := strconv.ParseUint(os.Args[2], 10, 64)
	operations, _ := strconv.Atoi(os.Args[4])
	keys := keysInOrder(count)
	limit, burst := rate.Limit(1), 1_000_000
	if os.Args[3] == "denied" {
		limit, burst = rate.Every(30*time.Minute), 2
	}
	limiter := limiters{byKey: map[string]*rate.Limiter{}, limit: limit, burst: burst}
	run := func(operations int) (denied int) {
		for i := 0; i < operations; i++ {
			if !limiter.allow(keys[i&(len(keys)-1)]) {
				denied++
			}
		}
		return denied
	}
	run(len(keys) * 2)
	begin := processTime()
	denied := run(operations)
	spent := processTime() - begin
	fmt.Printf("%.2f %.4f\n", float64(spent.Nanoseconds())/float64(operations),
		float64(denied)/float64(operations))
}
