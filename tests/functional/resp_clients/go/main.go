// Connects with go-redis by each version of the protocol to the port in the first argument, with the
// password in the second if it is given, and prints the replies as one JSON object.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"
)

func main() {
	out := map[string]any{}
	for _, protocol := range []int{2, 3} {
		out[fmt.Sprintf("go-redis, RESP%d", protocol)] = replies(protocol)
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		panic(err)
	}
}

func replies(protocol int) map[string]any {
	options := &redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol, ClientName: "checks"}
	if len(os.Args) > 2 {
		options.Password = os.Args[2]
	}
	ctx := context.Background()
	client := redis.NewClient(options)
	defer client.Close()
	key := fmt.Sprintf("go%d", protocol)

	pipeline := client.Pipeline()
	many := []*redis.Cmd{}
	for i := 0; i < 1000; i++ {
		many = append(many, pipeline.Do(ctx, "CL.THROTTLE", key+"-many", 999, 1, 3600))
	}
	if _, err := pipeline.Exec(ctx); err != nil {
		panic(err)
	}
	remaining := []int64{}
	for _, one := range many {
		reply, err := one.Int64Slice()
		if err != nil {
			panic(err)
		}
		remaining = append(remaining, reply[2])
	}
	first, err := client.Do(ctx, "CL.THROTTLE", key, 15, 30, 60).Int64Slice()
	if err != nil {
		panic(err)
	}
	limit, err := client.Do(ctx, "RL.LIMIT", key, "token_bucket", 10, "60s").Result()
	if err != nil {
		panic(err)
	}
	wrong := client.Do(ctx, "CL.THROTTLE", key, "x", 1, 1).Err()
	_, transaction := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		return pipe.Do(ctx, "CL.THROTTLE", key, 15, 30, 60).Err()
	})
	return map[string]any{
		"first": first, "remaining": remaining, "limit": fmt.Sprint(limit), "error": wrong.Error(),
		"ping": client.Ping(ctx).Val(), "name": client.ClientGetName(ctx).Val(),
		"transaction": transaction.Error(),
	}
}
