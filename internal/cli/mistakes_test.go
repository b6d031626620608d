package cli_test

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/daeace23/prober/internal/cli/clitest"
)

// mistakes are wrong command lines, what their errors name, and command lines of their hints. FILES is a
// folder.
var mistakes = []struct{ line, names, hint string }{
	// Lengths of pauses.
	{"pause shop-cart 10m", `"10m": --for`, "prober pause shop-cart --for 10m"},
	{"pause shop-cart readiness 2h", `"2h": --for`, "prober pause shop-cart readiness --for 2h"},
	{"pause shop-cart 10", `"10": --for`, "prober pause shop-cart --for 10m"},
	{"pause 1h", `"1h": --for`, "prober pause shop/web --for 1h"},
	{"pause shop-cart --for 10", `"--for"`, "prober pause shop-cart --for 10m"},
	{"pause shop-cart --for=10", `"--for"`, "prober pause shop-cart --for=10m"},
	{"pause shop-cart --for 2d", `"--for"`, "prober pause shop-cart --for 48h"},
	{"pause shop-cart --for 30min", `"--for"`, "prober pause shop-cart --for 30m"},
	{"pause shop-cart --for soon", `"--for"`, "prober pause shop-cart --for 10m"},
	{"pause shop-cart --for", "--for", "prober pause shop-cart --for 10m"},
	{"pause shop-cart --for 10ms", "--for 10ms", "prober pause shop-cart --for 10m"},
	{"pause shop-cart --duration 10m", "--duration", "prober pause shop-cart --for 10m"},
	{"pause shop-cart --until 10m", "--until", "prober pause shop-cart --for 10m"},
	{"force shop down 2h", `"2h": --for`, "prober force shop down --for 2h"},
	{"get probes --request-timeout 5", `"--request-timeout"`, "prober get probes --request-timeout 5s"},
	// Names that are missing, and kinds.
	{"pause", "prober pause: a name", "prober pause -l app=shop"},
	{"resume", "prober resume: a name", "prober resume --all"},
	{"explain", "prober explain: a name", "prober explain shop/web"},
	{"trigger -n prod", "prober trigger: a name", "prober trigger --all"},
	{"pause --all shop", "--all", "prober pause shop"},
	{"pause shop ready", `unknown kind "ready"`, "prober pause shop readiness"},
	{"describe shop/web livenes", `unknown kind "livenes"`, "prober describe shop/web liveness"},
	{"watch shop liveness cart", "liveness: the kind", "prober watch shop cart liveness"},
	{"explain shop liveness --kind readiness", "--kind is readiness", "prober explain shop --kind readiness"},
	{"pause shop/", `"shop/"`, "prober pause shop/web readiness"},
	{"force shop", `"shop" must be one of up, down, drained`, "prober force shop down"},
	{"force down shop", `"shop" must be one of`, "prober force shop down"},
	{"force shop draind", `"draind" must be one of`, "prober force shop drained"},
	{"force", "must be one of", "prober force shop/web down"},
	{"notify test", "want RECEIVER", "prober notify test ops"},
	{"notify ops", `unknown command "ops"`, "prober notify test ops"},
	{"push", "NAME, --url", "prober push backup"},
	{"push backup failed", "want one NAME", "prober push backup -- failed"},
	{"push backup --", "a command is required after --", "prober push backup -- /usr/local/bin/backup"},
	// Commands of other programs.
	{"list", `"list"`, "prober get probes"},
	{"ls", `"ls"`, "prober get probes"},
	{"ls -n prod", `"ls"`, "prober get probes -n prod"},
	{"ps", `"ps"`, "prober get pods"},
	{"ps -a", `"ps"`, "prober get pods"},
	{"logs -f shop", `"logs"`, "prober get events shop"},
	{"top", `"top"`, "prober watch"},
	{"stop shop", `"stop"`, "prober pause shop"},
	{"start shop", `"start"`, "prober resume shop"},
	{"silence shop --for 1h", `"silence"`, "prober pause shop --for 1h"},
	{"ack shop", `"ack"`, "prober pause shop"},
	{"ack", `"ack"`, "prober pause shop/web readiness"},
	{"unmute shop", `"unmute"`, "prober resume shop"},
	{"drain shop", `"drain"`, "prober force shop down --for 2h --reason 'the database moves'"},
	{"check http://127.0.0.1/ok", `"check"`, "prober probe http http://127.0.0.1/ok"},
	{"check pod.yaml", `"check"`, "prober validate pod.yaml"},
	{"show shop/web", `"show"`, "prober describe shop/web"},
	{"why shop", `"why"`, "prober explain shop"},
	{"restart", `"restart"`, "prober reload"},
	{"history shop", `"history"`, "prober report shop"},
	{"health", `"health"`, "prober status"},
	{"alerts", `"alerts"`, "prober get notifications"},
	{"probes", `"probes"`, "prober get probes"},
	{"pods shop", `"pods"`, "prober get pods shop"},
	{"puase shop", `"puase"`, "prober pause shop"},
	{"get prbes", `"prbes"`, "prober get probes"},
	{"get services", `"services"`, "prober get endpoints"},
	{"get status", `"status"`, "prober status"},
	{"get pod/shop", `"pod/shop"`, "prober get pods shop"},
	{"get pods,events -n prod", `"pods,events"`, "prober get events -n prod"},
	{"describe pod shop", `"pod"`, "prober describe shop"},
	{"pause probe shop/web readiness", `"probe"`, "prober pause shop/web readiness"},
	{"build .", `"build"`, "prober plugin build ."},
	{"init", `"init"`, "prober plugin new demo --lang rust"},
	{"lint pod.yaml", `"lint"`, "prober validate pod.yaml"},
	{"get", "prober get: a command is required", "prober get --help"},
	{"http://127.0.0.1/ok", `"http://127.0.0.1/ok"`, "prober probe http http://127.0.0.1/ok"},
	{"probe http://127.0.0.1/ok", `"http://127.0.0.1/ok"`, "prober probe http http://127.0.0.1/ok"},
	{"probe 127.0.0.1:80", `"127.0.0.1:80"`, "prober probe tcp 127.0.0.1:80"},
	{"probe ping", `"ping"`, "prober probe http http://127.0.0.1:8080/healthz"},
	{"probe tcp", "want HOST:PORT", "prober probe tcp 127.0.0.1:6379"},
	// Files.
	{"run", "-f is required", "prober run --config prober.yaml"},
	{"run FILES/prober.yaml", "-f is required", "prober run --config FILES/prober.yaml"},
	{"run FILES/pod.yaml", "-f is required", "prober run -f FILES/pod.yaml"},
	{"run -f FILES/prober.yaml", "FILES/prober.yaml:1: ", "prober run --config FILES/prober.yaml"},
	{"run --config FILES/pod.yaml", "FILES/pod.yaml:1: ", "prober run -f FILES/pod.yaml"},
	{"run --config prober.yaml --history-retention 30", `"--history-retention"`, "prober run --config prober.yaml --history-retention 30d"},
	{"run -c prober.yaml", "-c", "prober run --config prober.yaml"},
	{"run --file pod.yaml", "--file", "prober run --filename pod.yaml"},
	{"run -f pod.yaml -v", "-v", "prober run -f pod.yaml --log-level=debug"},
	{"run -f pod.yaml --log-level verbose", `"--log-level"`, "prober run -f pod.yaml --log-level debug"},
	{"validate", "a path is required", "prober validate pods prober.yaml --plugins /etc/prober/plugins"},
	{"validate FILES/pod.yaml -o json", "--output", "prober validate FILES/pod.yaml -o json --explain-compat"},
	// Flags and their values.
	{"get --version", "--version", "prober version"},
	{"-v", "-v", "prober version"},
	{"get probes --watch=yes", `"-w, --watch"`, "prober get probes --watch"},
	{"get probes --watch=off", `"-w, --watch"`, "prober get probes --watch=false"},
	{"watch --help=yes", `"-h, --help"`, "prober watch --help"},
	{"get probes --state down", `"--state"`, "prober get probes --state failure"},
	{"get probes --result ok", `"--result"`, "prober get probes --result success"},
	{"get probes --state failures", `"--state"`, "prober get probes --state failure"},
	{"get probes --state", "--state", "prober get probes --state success"},
	{"get probes --kind ready", `"--kind"`, "prober get probes --kind readiness"},
	{"get probes --status failure", "--status", "prober get probes --state failure"},
	{"get probes --labels app=shop", "--labels", "prober get probes --selector app=shop"},
	{"get probes --label=app=shop", "--label", "prober get probes --selector=app=shop"},
	{"get probes -l a=b=c", `--selector "a=b=c"`, "prober get probes -l 'app=shop,tier!=cache'"},
	{"get probes -l", "-l", "prober get probes -l app=shop"},
	{"get probes --json", "--json", "prober get probes --output=json"},
	{"get probes --format json", "--format", "prober get probes --output json"},
	{"get probes -o yml", `"-o, --output"`, "prober get probes -o yaml"},
	{"get pods -o jsonpath={", "-o jsonpath", "prober get pods -o 'jsonpath={.items[0]}'"},
	{"get events -f", "-f", "prober get events --watch"},
	{"get probes --follow", "--follow", "prober get probes --watch"},
	{"get probes --host 127.0.0.1:1", "--host", "prober get probes --server 127.0.0.1:1"},
	{"get targets --state up", `"--state"`, "prober get targets --state probed"},
	{"report --from 7d", "--from", "prober report --since 7d"},
	{"report --since 5", `--since "5"`, "prober report --since yesterday"},
	{"report --since 1h --until 2h", "--since must be before --until", "prober report --since 7d"},
	{"pause shop --dryrun", "--dryrun", "prober pause shop --dry-run"},
	{"pause shop --comment x", "--comment", "prober pause shop --reason x"},
	{"reload now", "want no arguments", "prober reload"},
	{"probe tcp 127.0.0.1:1 --timout 1s", "--timout", "prober probe tcp 127.0.0.1:1 --timeout 1s"},
	{"probe http http://127.0.0.1/ -H a:b", "-H", "prober probe http http://127.0.0.1/ --header a:b"},
}

// hinted finds the command lines of a hint.
var hinted = regexp.MustCompile(`prober(-probe)? [^;?"]+`)

// Each mistake has an error that names the place, and a hint with a command line that is accepted.
func TestMistakesHaveWorkingHints(t *testing.T) {
	files := t.TempDir()
	clitest.WriteTree(t, files, map[string]string{
		"prober.yaml": "apiVersion: prober.dev/v1\nkind: AgentConfig\ntargets:\n- {name: web, static: [\"127.0.0.1:1\"], probe: {httpGet: {path: /ok}}}\n",
		"pod.yaml":    "apiVersion: v1\nkind: Pod\nmetadata: {name: shop}\nspec: {containers: [{name: web}]}\n",
	})
	for _, m := range mistakes {
		here := strings.NewReplacer("FILES", filepath.ToSlash(files))
		code, stdout, stderr := clitest.Run(nil, strings.Fields(here.Replace(m.line))...)
		message, hint, _ := strings.Cut(stderr, "\nprober: hint: ")
		if code != 64 || stdout != "" || !strings.HasPrefix(message, "prober: error: ") || !strings.Contains(message, here.Replace(m.names)) {
			t.Errorf("%s: exit code %d, %s%s", m.line, code, stdout, stderr)
		}
		var lines []string
		for line := range strings.SplitSeq(strings.ReplaceAll(strings.TrimSpace(hint), ", or ", "; "), "; ") {
			lines = append(lines, hinted.FindAllString(line, -1)...)
		}
		found := false
		for _, line := range lines {
			line = strings.TrimSpace(line)
			for _, end := range []string{" lists the commands", " lists the flags", " describes them"} {
				line = strings.TrimSuffix(line, end)
			}
			found = found || line == here.Replace(m.hint)
			if strings.HasSuffix(line, " [flags]") {
				continue // the usage
			}
			accepted(t, m.line, line, "unix:"+filepath.Join(files, "none"))
		}
		if !found {
			t.Errorf("%s: want the hint %q, got %q of %s", m.line, m.hint, lines, stderr)
		}
	}
	if len(mistakes) < 60 {
		t.Errorf("%d mistakes", len(mistakes))
	}
}

// accepted checks that prober accepts the flags and arguments of a command line. Commands of an agent run,
// and find that it does not respond.
func accepted(t *testing.T, mistake, line, server string) {
	t.Helper()
	var args []string
	for i, word := range strings.Split(line, "'") { // the words of quotes stay together
		if i%2 == 1 {
			args = append(args, word)
		} else {
			args = append(args, strings.Fields(word)...)
		}
	}
	r := root()
	c, rest, err := r.Find(args[1:])
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err == nil {
		err = c.ValidateArgs(c.Flags().Args())
	}
	if err != nil || c.HasSubCommands() && c.ValidArgsFunction == nil {
		t.Errorf("%s: the hint %s is wrong: %v", mistake, line, err)
		return
	}
	if c.Flags().Lookup("request-timeout") == nil || c.Name() == "push" { // push tries again
		return
	}
	if code, _, stderr := clitest.Run(nil, append(args[1:], "--server", server)...); code != 3 {
		t.Errorf("%s: the hint %s is wrong: exit code %d, %s", mistake, line, code, stderr)
	}
}
