// Command s3server runs gofakes3 on ADDRESS, with the keys ACCESS and SECRET and objects in memory. Its clock is ahead by
// AHEAD. The bucket backups has db/old, "db/new & <2>+.tar" of 2048 bytes and 1200 objects below many/.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/rclone/gofakes3"
	"github.com/rclone/gofakes3/s3mem"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		log.Fatal(err)
	}
}

func run(address, access, secret, ahead string) error {
	offset, err := time.ParseDuration(ahead)
	if err != nil {
		return err
	}
	backend := s3mem.New()
	if err := backend.CreateBucket(context.Background(), "backups"); err != nil {
		return err
	}
	put := func(key string, size int) error {
		meta := map[string]string{"Last-Modified": time.Now().UTC().Format(http.TimeFormat)} // as gofakes3 keeps it of a PUT
		_, err := backend.PutObject(context.Background(), "backups", key, meta, strings.NewReader(strings.Repeat("x", size)), int64(size))
		return err
	}
	for i := range 1200 {
		if err := put(fmt.Sprintf("many/%04d", i), i); err != nil {
			return err
		}
	}
	if err := put("db/old", 1); err != nil {
		return err
	}
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // times of objects are in seconds
	if err := put("db/new & <2>+.tar", 2048); err != nil {
		return err
	}
	clock := gofakes3.FixedTimeSource(time.Now().Add(offset))
	options := []gofakes3.Option{gofakes3.WithV4Auth(map[string]string{access: secret})}
	if offset != 0 {
		options = append(options, gofakes3.WithTimeSource(clock))
	}
	handler := gofakes3.New(backend, options...).Server()
	return http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(offset).UTC().Format(http.TimeFormat))
		handler.ServeHTTP(w, r)
	}))
}
