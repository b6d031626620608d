package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/daeace23/prober/internal/yamlpos"
)

// maxTargetLabels limits the labels of targets that metrics have.
const maxTargetLabels = 20

// TargetLabel is a label of targets that the metric prober_target_info has.
type TargetLabel struct {
	Name   string // of the label, such as "shop.example/team"
	Metric string // name of the label of the metric, such as "label_shop_example_team"
}

// parseTargetLabel parses the name of a label.
func parseTargetLabel(name string) (TargetLabel, error) {
	if why := validation.IsQualifiedName(name); len(why) > 0 {
		return TargetLabel{}, fmt.Errorf("%.80q is not the name of a label: %s", name, why[0])
	}
	return TargetLabel{name, "label_" + strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r == '/' {
			return '_'
		}
		return r // a letter, a digit or _
	}, name)}, nil
}

func (d *decoder) metrics(a *Agent) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		d.Mapping(n, path, yamlpos.Fields{"targetLabels": d.ListOf(func(n *yamlpos.Node, path string) {
			var l TargetLabel
			yamlpos.Parsed(&d.Decoder, &l, parseTargetLabel)(n, path)
			if l.Name == "" {
				return
			}
			if i := slices.IndexFunc(a.TargetLabels, func(o TargetLabel) bool { return o.Metric == l.Metric }); i >= 0 {
				d.Error(n, path, fmt.Errorf("%q is the label %s of the metric, as %q is", l.Name, l.Metric, a.TargetLabels[i].Name))
				return
			}
			if a.TargetLabels = append(a.TargetLabels, l); len(a.TargetLabels) == maxTargetLabels+1 {
				d.Error(n, path, errors.New("there are more than 20 labels"))
			}
		})})
	}
}
