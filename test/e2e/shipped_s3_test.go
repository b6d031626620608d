//go:build e2e

package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// startS3 starts gofakes3, which verifies signatures by code of its own, and returns its address. Its clock is ahead.
func startS3(t *testing.T, ahead string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "s3server")
	if out, err := exec.Command("go", "build", "-C", "s3server", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	address := freeAddress(t)
	listening(t, address, exec.Command(program, address, "PROBE", "open sesame", ahead))
	return address
}

func TestShippedS3(t *testing.T) {
	t.Parallel()
	address, ahead := startS3(t, "0s"), startS3(t, "1h")
	const login = `"bucket":"backups","accessKeyId":"PROBE","secretAccessKey":"open sesame"`
	runShipped(t, "s3", address, []shippedCase{
		{"bucket", `{` + login + `}`, "success", "the bucket backups exists"},
		{"object", `{` + login + `,"key":"db/new & <2>+.tar","age":{"fail":"1h"},"size":{"min":2048}}`, "success", "2048 bytes"},
		{"newest of two", `{` + login + `,"prefix":"db/","count":{"min":2,"max":2}}`, "success", "the newest of 2 objects, db/new & <2>+.tar is"},
		{"two pages", `{` + login + `,"prefix":"many/"}`, "success", "the newest of 1200 objects, many/"},
		{"more than may be read", `{` + login + `,"prefix":"many/","maxObjects":1000}`, "failure", `backups has more than 1000 objects below "many/"`},
		{"too small", `{` + login + `,"key":"db/old","size":{"min":2}}`, "failure", "the size of the object db/old is 1, below 2"},
		{"no object", `{` + login + `,"key":"db/gone"}`, "failure", "the object db/gone: HTTP status 404: NoSuchKey"},
		{"nothing below the prefix", `{` + login + `,"prefix":"gone/"}`, "failure", `no object below "gone/"`},
		{"no bucket", `{"bucket":"gone","accessKeyId":"PROBE","secretAccessKey":"open sesame"}`, "failure", "the bucket gone: HTTP status 404: NoSuchBucket"},
		{"wrong secret", `{"bucket":"backups","accessKeyId":"PROBE","secretAccessKey":"guess"}`, "failure", "HTTP status 403: SignatureDoesNotMatch"},
		{"unknown key", `{"bucket":"backups","accessKeyId":"OTHER","secretAccessKey":"guess"}`, "failure", "HTTP status 403: InvalidAccessKeyId"},
	})
	runShipped(t, "s3", ahead, []shippedCase{{"clock that is behind", `{` + login + `,"prefix":"db/"}`, "failure", "behind the server's"}})
	runShipped(t, "s3", saying(t, "220 mail.example.com\r\n"), []shippedCase{{"another protocol", `{` + login + `}`, "failure", "HEAD /backups: "}})
}

// TestShippedRust runs the unit tests of shipped plugins: the vectors of AWS's signatures, and the examples of HPACK.
func TestShippedRust(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	shell(t, dir, "/usr/bin/rustc --edition 2021 --crate-type rlib --crate-name prober -o libprober.rlib "+root+"/sdk/rust/src/lib.rs")
	for _, file := range []string{"s3/sign.rs", "grpc-health/hpack.rs"} {
		shell(t, dir, "/usr/bin/rustc --edition 2021 -D warnings -A dead_code --extern prober=libprober.rlib --test -o tests "+
			root+"/handlers/shipped/"+file+" && ./tests -q")
	}
}
