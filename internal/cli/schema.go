package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/docs"
	"github.com/daeace23/prober/internal/cli/command"
)

func newSchema(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "schema " + strings.Join(docs.SchemaNames(), "|"),
		Short: "Print the JSON Schema of a file, for editors",
		Long: "Schema prints a JSON Schema (2020-12), with which editors complete and check a file:\n\n" +
			"  annotation  the annotation prober.dev/probes of a pod, as a file of its own\n" +
			"  config      prober.yaml\n" +
			"  plugin      plugin.yaml, the manifest of a plugin\n" +
			"  test        *_test.yaml, the test cases of a plugin\n\n" +
			"The schemas have all fields and types. Rules about several fields are checked by prober validate,\n" +
			"prober plugin vet and prober plugin test only.",
		Example: "  prober schema config > prober.schema.json\n" +
			"  prober schema plugin > plugin.schema.json",
		Args:      cobra.MatchAll(command.Arguments("NAME"), oneSchema),
		ValidArgs: docs.SchemaNames(),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := docs.Schema(args[0])
			if err != nil {
				return command.Failed(err)
			}
			if _, err := env.Stdout.Write(text); err != nil {
				return command.Failed(err)
			}
			return nil
		},
	}
}

// oneSchema refuses an argument that is not the name of a schema.
func oneSchema(_ *cobra.Command, args []string) error {
	if names := docs.SchemaNames(); !slices.Contains(names, args[0]) {
		return command.Usage("prober schema "+names[0], "%.80q is not the name of a schema: known: %s", args[0], strings.Join(names, ", "))
	}
	return nil
}
