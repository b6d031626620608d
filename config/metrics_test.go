package config_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/daeace23/prober/config"
)

func TestTargetLabels(t *testing.T) {
	got, err := config.Parse("f", []byte(head+"metrics: {targetLabels: [team, shop.example/cost-center, A1]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []config.TargetLabel{{Name: "team", Metric: "label_team"}, {Name: "shop.example/cost-center", Metric: "label_shop_example_cost_center"}, {Name: "A1", Metric: "label_A1"}}
	if !slices.Equal(got.TargetLabels, want) {
		t.Errorf("%+v", got.TargetLabels)
	}
	var many []string
	for i := range 21 {
		many = append(many, fmt.Sprint("l", i))
	}
	for text, want := range map[string]string{
		"[a b]":                             `metrics.targetLabels[0]: "a b" is not the name of a label: `,
		"['']":                              `metrics.targetLabels[0]: `,
		"[é]":                               `metrics.targetLabels[0]: "é" is not the name of a label: `,
		"[a, a]":                            `metrics.targetLabels[1]: "a" is the label label_a of the metric, as "a" is`,
		"[a.b, a-b]":                        `metrics.targetLabels[1]: "a-b" is the label label_a_b of the metric, as "a.b" is`,
		"[" + strings.Join(many, ",") + "]": `metrics.targetLabels[20]: there are more than 20 labels`,
	} {
		if _, err := config.Parse("f", []byte(head+"metrics: {targetLabels: "+text+"}\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
