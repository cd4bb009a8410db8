package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// control speaks to systemd about one unit.
type control struct {
	unit, systemctl, busctl string
	// dropIn keeps systemd from starting the unit while licence is not there;
	// joinDropIn has the arguments of a join.
	dropIn, joinDropIn, licence string
	// licenceName is licence as systemd sees it.
	licenceName string
}

func newControl(o UnitOptions) control {
	c := control{unit: o.Unit, systemctl: o.Systemctl, busctl: o.Busctl}
	if c.systemctl == "" {
		c.systemctl = "systemctl"
	}
	if c.busctl == "" {
		c.busctl = "busctl"
	}
	c.licenceName = "/run/holdfast/pair/" + o.Unit + ".start"
	c.licence = filepath.Join(o.Root, c.licenceName)
	c.dropIn = filepath.Join(o.Root, "/etc/systemd/system", o.Unit+".d", "50-holdfast-pair.conf")
	c.joinDropIn = filepath.Join(o.Root, "/run/systemd/system", o.Unit+".d", "60-holdfast-pair-join.conf")
	return c
}

// run runs a program of systemd, and gives its own words as the error.
func (c control) run(ctx context.Context, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "SYSTEMD_COLORS=0", "SYSTEMD_PAGER=")
	cmd.WaitDelay = time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, refuse(NoProgram, "run the pair on a machine with systemd, or etcd as the agent's child: -- etcd …", "there is no %s", program)
	}
	if err != nil {
		text, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
		return nil, fmt.Errorf("%s %s: %w: %s", program, args[0], err, text)
	}
	return out.Bytes(), nil
}

// status asks how the unit is.
func (c control) status(ctx context.Context) (unitStatus, error) {
	out, err := c.run(ctx, c.systemctl, "show", c.unit, "-p", "ActiveState,SubState,Result,MainPID,ExecMainCode,ExecMainStatus,Job")
	if err != nil {
		return unitStatus{}, err
	}
	return parseStatus(out), nil
}

// parseStatus reads lines of NAME=value.
func parseStatus(out []byte) unitStatus {
	p := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		p[name] = value
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(p[name])
		return n
	}
	return unitStatus{
		active: p["ActiveState"], sub: p["SubState"], result: p["Result"], pid: number("MainPID"),
		job: p["Job"] != "" && p["Job"] != "0", ended: endedBy(number("ExecMainCode"), number("ExecMainStatus")),
	}
}

// gateText is the drop-in. Its condition lets nobody but the agent start etcd;
// without quorum etcd does not report to be ready, which is no reason to end it.
func (c control) gateText() string {
	return "# Written by holdfast pair run --unit " + c.unit + ": etcd of a pair is started by its\n" +
		"# agent, once it has read the arbiter. To give it back to systemd:\n" +
		"#   rm " + filepath.Join("/etc/systemd/system", c.unit+".d", filepath.Base(c.dropIn)) + " && systemctl daemon-reload\n" +
		"[Unit]\nConditionPathExists=" + c.licenceName + "\n\n[Service]\nRestart=no\nTimeoutStartSec=infinity\n"
}

// gate puts the drop-in in place and makes sure that it is in force.
func (c control) gate(ctx context.Context) error {
	changed, err := install(c.dropIn, c.gateText())
	if err != nil {
		return err
	}
	if changed {
		if err := c.reload(ctx); err != nil {
			return err
		}
	}
	out, err := c.run(ctx, c.systemctl, "show", c.unit, "-p", "Restart,NeedDaemonReload")
	if err != nil {
		return err
	}
	text := string(out)
	if strings.Contains(text, "NeedDaemonReload=yes") {
		if err := c.reload(ctx); err != nil {
			return err
		}
		if out, err = c.run(ctx, c.systemctl, "show", c.unit, "-p", "Restart,NeedDaemonReload"); err != nil {
			return err
		}
		text = string(out)
	}
	if !strings.Contains(text, "Restart=no") {
		return refuse(Unfit, "see: systemctl cat "+c.unit, "a later drop-in of %s takes back Restart=no of %s", c.unit, c.dropIn)
	}
	return nil
}

// install writes a drop-in, unless it is there as it should be.
func install(path, text string) (changed bool, err error) {
	if have, err := os.ReadFile(path); err == nil && string(have) == text {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, refuse(NotPermitted, "run the agent as root", "drop-in: %v", err)
	}
	if err := replace(path, []byte(text)); err != nil {
		return false, refuse(NotPermitted, "run the agent as root", "drop-in: %v", err)
	}
	return true, nil
}

// remove removes a file and says whether it was there.
func remove(path string) (bool, error) {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("remove file: %w", err)
	}
	return true, nil
}

func (c control) reload(ctx context.Context) error {
	_, err := c.run(ctx, c.systemctl, "daemon-reload")
	return err
}

// join has the next start run etcd with these words.
func (c control) join(ctx context.Context, argv []string) error {
	text := "# Written by holdfast pair run --unit " + c.unit + ": etcd joins the other member.\n[Service]\n" +
		"UnsetEnvironment=" + variable("initial-cluster") + " " + variable("initial-cluster-state") + " " + variable("config-file") + "\n" +
		"ExecStart=\nExecStart=" + quoteCommand(argv) + "\n"
	changed, err := install(c.joinDropIn, text)
	if err != nil || !changed {
		return err
	}
	return c.reload(ctx)
}

// unjoin takes the arguments of a former join away.
func (c control) unjoin(ctx context.Context) error {
	there, err := remove(c.joinDropIn)
	if err != nil || !there {
		return err
	}
	return c.reload(ctx)
}

// open lets systemd start the unit, close does not.
func (c control) open() error {
	if err := os.MkdirAll(filepath.Dir(c.licence), 0o755); err != nil {
		return refuse(NotPermitted, "run the agent as root", "%v", err)
	}
	return replace(c.licence, nil)
}

func (c control) close() error {
	_, err := remove(c.licence)
	return err
}

// start asks systemd to start the unit and does not wait for it: with
// Type=notify that would be until etcd has a leader.
func (c control) start(ctx context.Context) error {
	// Or systemd refuses after some starts in a row.
	_, _ = c.run(ctx, c.systemctl, "reset-failed", c.unit)
	_, err := c.run(ctx, c.systemctl, "start", "--no-block", c.unit)
	return err
}

// kill ends whatever the unit runs beside its main process.
func (c control) kill(ctx context.Context, hard bool) error {
	if !hard {
		return nil
	}
	_, err := c.run(ctx, c.systemctl, "kill", "--kill-who=all", "--signal=SIGKILL", c.unit)
	if err != nil && strings.Contains(err.Error(), "No process") {
		return nil
	}
	return err
}

func (c control) release(ctx context.Context) error {
	changed := false
	for _, path := range []string{c.licence, c.joinDropIn, c.dropIn} {
		there, err := remove(path)
		if err != nil {
			return err
		}
		changed = changed || there
	}
	_ = os.Remove(filepath.Dir(c.dropIn)) // if there is nothing else in it
	if !changed {
		return nil
	}
	return c.reload(ctx)
}
