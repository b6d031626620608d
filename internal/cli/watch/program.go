package watch

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/daeace23/prober/agent/api"
)

const (
	framesPerSecond = 10
	historiesAtOnce = 8
	// refreshDetails is the interval of requests for the details on the screen.
	refreshDetails = 2 * time.Second
)

// Screen shows the table on a terminal until the user quits or ctx ends.
func Screen(ctx context.Context, cfg *Config, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &feed{cfg: cfg}
	var feeding sync.WaitGroup
	feeding.Go(func() { f.run(ctx) })
	p := &program{ctx: ctx, cfg: cfg, feed: f, model: New(cfg, time.Now())}
	screen := tea.NewProgram(p, tea.WithInput(in), tea.WithOutput(out), tea.WithFPS(framesPerSecond), tea.WithoutSignalHandler())
	// Quit ends the program. If the context ended it, it would close the terminal while another goroutine
	// reads it.
	quit := context.AfterFunc(ctx, screen.Quit)
	_, err := screen.Run()
	quit()
	cancel()
	feeding.Wait()
	return err
}

// program connects a [Model] with a terminal and an agent.
type program struct {
	ctx   context.Context // read-only; bubbletea's methods take none
	cfg   *Config
	feed  *feed
	model *Model

	asking    bool      // whether a request for histories is running
	refreshed time.Time // time of the last request for the details
}

// The messages of a program.
type (
	frame     time.Time
	histories []api.ProbeStatus
	described struct {
		probe api.ProbeStatus
		text  string
	}
	noted string
)

var _ tea.Model = (*program)(nil)

// Init implements [tea.Model].
func (p *program) Init() tea.Cmd { return nextFrame() }

func nextFrame() tea.Cmd {
	return tea.Tick(time.Second/framesPerSecond, func(t time.Time) tea.Msg { return frame(t) })
}

// Update implements [tea.Model].
func (p *program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.model.Resize(msg.Width, msg.Height)
	case tea.KeyPressMsg:
		return p, p.carryOut(p.model.Key(msg.String(), msg.Text))
	case frame:
		changes, link := p.feed.take()
		p.model.Apply(changes, link, time.Time(msg))
		return p, tea.Batch(nextFrame(), p.askHistories(), p.askDetails())
	case histories:
		p.asking = false
		for i := range msg {
			p.model.SetHistory(&msg[i])
		}
	case described:
		p.model.SetDetails(&msg.probe, msg.text)
	case noted:
		p.model.Note(string(msg))
	}
	return p, nil
}

// View implements [tea.Model].
func (p *program) View() tea.View {
	v := tea.NewView(p.model.View())
	v.AltScreen = true
	return v
}

// carryOut carries out the command of a key.
func (p *program) carryOut(c Command) tea.Cmd {
	switch c.Do {
	case "":
		return nil
	case "quit":
		return tea.Quit
	case "details":
		p.refreshed = time.Time{}
		return p.askDetails()
	}
	return func() tea.Msg {
		if err := p.cfg.Act(p.ctx, c.Do, &c.Probe, c.Pause); err != nil {
			return noted(err.Error())
		}
		return noted(fmt.Sprintf("%s %s/%s %s: done", c.Do, c.Probe.Pod, c.Probe.Container, c.Probe.Kind))
	}
}

// askHistories requests the history of probes that have appeared on the screen.
func (p *program) askHistories() tea.Cmd {
	if p.asking {
		return nil
	}
	wanted := p.model.Wanted(historiesAtOnce)
	if len(wanted) == 0 {
		return nil
	}
	p.asking = true
	return func() tea.Msg {
		var found histories
		for i := range wanted {
			if probe, err := p.cfg.History(p.ctx, &wanted[i]); err == nil { // otherwise new ticks fill the strip
				found = append(found, probe)
			}
		}
		return found
	}
}

// askDetails requests the details on the screen, if they are old.
func (p *program) askDetails() tea.Cmd {
	shown := p.model.Shown()
	if shown == nil || time.Since(p.refreshed) < refreshDetails {
		return nil
	}
	p.refreshed = time.Now()
	probe := *shown
	return func() tea.Msg {
		text, err := p.cfg.Details(p.ctx, &probe)
		if err != nil {
			return noted(err.Error())
		}
		return described{probe, text}
	}
}
