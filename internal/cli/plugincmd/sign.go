package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/plugin/trust"
)

// defaultKey is the file that keygen writes when no other is named.
const defaultKey = "prober.key"

func newKeygen(env *command.Env) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "keygen [-o FILE]",
		Short: "Make a key that signs plugins",
		Long: "Keygen makes an Ed25519 key. It writes the private key to a new file that only its owner may\n" +
			"read, and prints the public key, for a file that trust.keys of prober.yaml names.",
		Example: "  prober plugin keygen -o ops.key > ops.pub",
		Args:    command.Arguments(),
		RunE:    func(*cobra.Command, []string) error { return keygen(env, file) },
	}
	command.FileFlag(c, &file, "o", "out", defaultKey, "file of the private key")
	return c
}

func keygen(env *command.Env, file string) error {
	key, err := trust.Generate()
	if err != nil {
		return command.Failed(err)
	}
	if err := key.Write(file); errors.Is(err, fs.ErrExist) {
		return command.Usage("-o names another file; no key is ever overwritten", "key: %w", err)
	} else if err != nil {
		return command.Usage("", "key: %w", err)
	}
	if _, err := env.Stdout.Write(key.PEM()); err != nil {
		return command.Failed(errors.Join(err, os.Remove(file))) // the public key was not printed
	}
	fmt.Fprintf(env.Stderr, "prober: wrote the private key %s to %s; the public key is on stdout\n", key.ID, file)
	return nil
}

func newSign(env *command.Env) *cobra.Command {
	var (
		file      string
		add, skip bool
	)
	c := &cobra.Command{
		Use:   "sign FILE... --key FILE",
		Short: "Sign plugins",
		Long: "Sign writes the signature of each plugin to FILE.sig. It covers the module and the plugin.yaml\n" +
			"beside it, unless the same manifest is inside the module. For a program it covers FILE.yaml, and\n" +
			"for a Nagios check the plugin.yaml alone, which may have the digest of the command. Signatures by\n" +
			"other keys are replaced, unless --add keeps them.\n\n" +
			"Sign runs prober plugin check for a module first, without a comparison, in the sandbox. It starts no\n" +
			"commands of test cases. A module that prober cannot load is not signed, even with --skip-check.",
		Example: "  prober plugin sign demo/demo.wasm --key ops.key",
		Args:    command.AtLeast("a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return signPlugins(cmd.Context(), env, args, file, add, skip)
		},
	}
	command.FileFlag(c, &file, "", "key", "", "file of the private key, as keygen makes it")
	skipFlag(c, &skip, "sign without a check")
	c.Flags().BoolVar(&add, "add", false, "keep the signatures of other keys")
	return c
}

func signPlugins(ctx context.Context, env *command.Env, paths []string, file string, add, skip bool) error {
	switch {
	case file == "":
		return command.Usage("`prober plugin keygen` makes a key", "sign: --key is required")
	case strings.Contains(file, "-----BEGIN"):
		return command.Usage("all users can read arguments of processes: make a new key", "--key: must be the name of a file, not a key")
	}
	key, err := trust.ReadPrivateKey(file)
	if err != nil {
		return command.Usage("`prober plugin keygen` makes a key, and chmod 600 keeps one to its owner", "%w", err)
	}
	for _, path := range paths {
		err := signPlugin(ctx, env, path, key, add, skip)
		if _, ok := errors.AsType[*command.Exit](err); ok {
			return err
		}
		if err != nil {
			return command.Usage(hintFor(path, err), "%w", err)
		}
	}
	return nil
}

// maxSignatures is the largest size of a file of signatures.
const maxSignatures = 64 << 10

func signPlugin(ctx context.Context, env *command.Env, path string, key trust.PrivateKey, add, skip bool) error {
	f, err := trust.Read(path)
	if err != nil {
		return err
	}
	warnManifest(env, *f)
	if err := refuse(ctx, env, *f, "it was not signed"); err != nil {
		return err
	}
	if err := checkSigned(ctx, env, *f, skip); err != nil {
		return err
	}
	out := f.Path + trust.Suffix
	var others []byte
	if add {
		if others, err = regular.Read(out, maxSignatures); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	data, err := key.Sign(f, others)
	if err != nil {
		return fmt.Errorf("%s: %w", out, err)
	}
	if err := regular.ReplaceBytes(out, 0o644, data); err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "%s: key %s signed %s\n", out, key.ID, f.Digest)
	return nil
}

func newVerify(env *command.Env) *cobra.Command {
	var keys []string
	c := &cobra.Command{
		Use:   "verify FILE --key PUB...",
		Short: "Check who signed a plugin",
		Long: "Verify checks the signatures beside a plugin, prober's and cosign's, with public keys.\n\n" +
			"Exit code 0 signed by one of the keys, 1 not signed by one or a bad signature, 64 wrong usage.",
		Example: "  prober plugin verify demo.wasm --key ops.pub",
		Args:    command.Arguments("FILE"),
		RunE:    func(_ *cobra.Command, args []string) error { return verifyPlugin(env, args[0], keys) },
	}
	c.Flags().StringArrayVar(&keys, "key", nil, "file of a public key")
	return c
}

func verifyPlugin(env *command.Env, path string, files []string) error {
	if len(files) == 0 {
		return command.Usage("`prober plugin keygen` prints the public key of a pair", "verify: --key is required")
	}
	policy, err := policyOf(files)
	if err != nil {
		return command.Usage("", "%w", err)
	}
	f, err := trust.Read(path)
	if f == nil {
		return command.Usage(hintFor(path, err), "%w", err)
	}
	warnManifest(env, *f)
	verdict, err := policy.Check(*f) // the error of a truncated module is returned here
	if err == nil && verdict.State != trust.Signed {
		err = fmt.Errorf("%s: %s", f.Path, verdict)
	}
	if err != nil {
		return command.Failed(err)
	}
	fmt.Fprintf(env.Stdout, "%s: %s\n", f.Path, explain.OneLine(verdict.String()))
	return nil
}

// policyOf returns a policy that trusts the keys in files and requires no signature.
func policyOf(files []string) (*trust.Policy, error) {
	keys, err := trust.ReadKeys(files)
	if err != nil {
		return nil, err
	}
	return trust.New(trust.Config{Keys: keys})
}
