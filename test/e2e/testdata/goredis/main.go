// Goredis is a guest whose client is github.com/redis/go-redis, over [sdk.Dial].
package main

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

func main() {}

func init() { sdk.Register(sdk.Func(check)) }

func check(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	client := redis.NewClient(&redis.Options{
		Addr:       r.Addr(),
		Dialer:     sdk.Dial,
		Password:   r.Config.String("password", ""),
		MaxRetries: -1,
	})
	defer client.Close()
	if err := client.Set(ctx, "prober", "was here", 0).Err(); err != nil {
		return sdk.Failuref("SET: %v", err), nil
	}
	value, err := client.Get(ctx, "prober").Result()
	if err != nil {
		return sdk.Failuref("GET: %v", err), nil
	}
	return sdk.Successf("redis keeps %q", value), nil
}
