package wire

import (
	"flag"
	"io"
	"log"
	"os"
	"testing"

	"k8s.io/klog/v2"
)

var (
	verbose  = flag.Bool("answers", false, "log the kubelet's answers")
	commands = flag.Int("commands", 100, "the most of them for the exec handler")
	probes   = flag.Int("probes", 300, "attempts of each handler against servers that misbehave")
)

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" || f.Name == "test.fuzz" })
	if !given { // situations mostly wait
		_ = flag.Set("test.parallel", "32")
	}
	log.SetOutput(io.Discard) // net/http logs unexpected bytes of servers
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}
