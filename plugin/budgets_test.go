package plugin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin"
)

const budgetHead = "apiVersion: prober.dev/v1\nname: demo\nversion: 1.0.0\n"

func TestBudgets(t *testing.T) {
	m, err := plugin.ParseManifest("plugin.yaml", []byte(budgetHead+"limits: {memory: 64Mi}\nbudgets: {module: 2Mi, fuel: 5000, start: 20ms}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := plugin.Budgets{Module: 2 << 20, Memory: 64 << 20, Fuel: 5000, Start: 20 * time.Millisecond}
	if got := m.EffectiveBudgets(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	want = plugin.Budgets{Module: plugin.MaxModule, Memory: 32 << 20, Fuel: plugin.DefaultFuelBudget, Start: plugin.DefaultStartBudget}
	if got := plugin.Minimal("demo").EffectiveBudgets(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestBadBudgets(t *testing.T) {
	for text, want := range map[string]string{
		"{module: 33Mi}":     "budgets.module: 33Mi is above 32Mi, the most that is allowed",
		"{memory: 1Gi}":      "budgets.memory: 1Gi is above 256Mi, the most that is allowed",
		"{fuel: 0}":          "budgets.fuel: must be an integer of at least 1",
		"{start: 1}":         `budgets.start: "1" is not a duration above 0, such as 100ms`,
		"{instructions: 10}": "budgets.instructions: unknown field; known: fuel, memory, module, start",
	} {
		if _, err := plugin.ParseManifest("plugin.yaml", []byte(budgetHead+"budgets: "+text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
