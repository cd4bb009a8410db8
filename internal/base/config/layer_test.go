package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

type layered struct {
	Settle time.Duration `yaml:"settle"`
	Zones  []string      `yaml:"zones"`
	Name   string        `yaml:"name"`
	DryRun bool          `yaml:"dry_run"`
}

// run gives a command a file, an environment and arguments, and returns what
// it sees. It binds twice, as a root command and its child would.
func run(t *testing.T, file string, env map[string]string, args []string) (layered, error) {
	t.Helper()
	path := ""
	if file != "" {
		path = filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for k, v := range env {
		t.Setenv(k, v)
	}
	cfg := layered{Settle: time.Second, Zones: []string{"default"}, Name: "default"}
	cmd := &cobra.Command{
		Use: "x", SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return Bind(cmd, "HOLDFAST_X") },
		RunE:              func(cmd *cobra.Command, _ []string) error { return Layer(cmd, "HOLDFAST_X", &path, &cfg) },
	}
	cmd.Flags().DurationVar(&cfg.Settle, "settle", cfg.Settle, "")
	cmd.Flags().StringSliceVar(&cfg.Zones, "zones", cfg.Zones, "")
	cmd.Flags().StringVar(&cfg.Name, "name", cfg.Name, "")
	cmd.Flags().BoolVar(&cfg.DryRun, "dry-run", cfg.DryRun, "")
	cmd.SetArgs(append([]string{}, args...))
	err := cmd.Execute()
	return cfg, err
}

func TestLayer(t *testing.T) {
	for _, c := range []struct {
		name string
		file string
		env  map[string]string
		args []string
		want layered
	}{
		{"defaults", "", nil, nil, layered{Settle: time.Second, Zones: []string{"default"}, Name: "default"}},
		{"file over defaults", "settle: 2s\nzones: [f]\n", nil, nil, layered{Settle: 2 * time.Second, Zones: []string{"f"}, Name: "default"}},
		{
			"environment over file", "settle: 2s\nzones: [f]\nname: f\n",
			map[string]string{"HOLDFAST_X_SETTLE": "3s", "HOLDFAST_X_ZONES": "e,g", "HOLDFAST_X_DRY_RUN": "true", "HOLDFAST_X_NAME": ""}, nil,
			layered{Settle: 3 * time.Second, Zones: []string{"e", "g"}, Name: "f", DryRun: true},
		},
		{
			"flags over all", "settle: 2s\nzones: [f]\ndry_run: true\n",
			map[string]string{"HOLDFAST_X_SETTLE": "3s", "HOLDFAST_X_ZONES": "e"},
			[]string{"--settle=4s", "--zones=x", "--zones=y", "--dry-run=false"},
			layered{Settle: 4 * time.Second, Zones: []string{"x", "y"}, Name: "default"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := run(t, c.file, c.env, c.args)
			if err != nil {
				t.Fatal(err)
			}
			if got.Settle != c.want.Settle || !slices.Equal(got.Zones, c.want.Zones) || got.Name != c.want.Name || got.DryRun != c.want.DryRun {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestBindNamesVariableAndRemedy(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"HOLDFAST_X_SETTLE", "3", `environment HOLDFAST_X_SETTLE: value "3": time: missing unit in duration "3"; write a number with its unit, such as 3s or 500ms`},
		{"HOLDFAST_X_DRY_RUN", "si", `environment HOLDFAST_X_DRY_RUN: value "si": strconv.ParseBool: parsing "si": invalid syntax; write true or false`},
	} {
		t.Run(c.key, func(t *testing.T) {
			_, err := run(t, "", map[string]string{c.key: c.value}, nil)
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// The file itself may be named by the environment.
func TestLayerReadsTheFileThatTheEnvironmentNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(file, []byte("settle: 2s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOLDFAST_X_CONFIG", file)
	var cfg layered
	path := ""
	cmd := &cobra.Command{Use: "x", RunE: func(cmd *cobra.Command, _ []string) error { return Layer(cmd, "HOLDFAST_X", &path, &cfg) }}
	cmd.Flags().StringVar(&path, "config", "", "")
	cmd.SetArgs(nil)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if cfg.Settle != 2*time.Second {
		t.Errorf("got %+v, want what stands in the file", cfg)
	}
}
