package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/base/file"
)

// unitFacts is how a unit is written.
type unitFacts struct {
	load, kind, user, group, dir, root string
	dynamic                            bool
	program                            string
	args                               []string // behind the program's name
	verbatim                           bool     // no $VARIABLE is replaced
	commands                           int
	env                                []string
	envFiles                           []envFile
}

type envFile struct {
	path     string
	optional bool
}

// facts asks for the properties that systemctl would not print exactly.
func (c control) facts(ctx context.Context) (unitFacts, error) {
	var f unitFacts
	object := "/org/freedesktop/systemd1/unit/" + busPath(c.unit)
	get := func(kind string, names ...string) ([]json.RawMessage, error) {
		args := append([]string{"--json=short", "get-property", "org.freedesktop.systemd1", object, "org.freedesktop.systemd1." + kind}, names...)
		out, err := c.run(ctx, c.busctl, args...)
		if err != nil {
			return nil, err
		}
		return parseProperties(out, len(names))
	}
	p, err := get("Unit", "LoadState")
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(p[0], &f.load); err != nil {
		return f, fmt.Errorf("read unit: %w", err)
	}
	if f.load != "loaded" {
		return f, refuse(NoProgram, "see: systemctl status "+c.unit, "the unit %s is %s", c.unit, f.load)
	}
	if p, err = get("Service", "Type", "User", "Group", "WorkingDirectory", "RootDirectory", "DynamicUser", "Environment", "EnvironmentFiles", "ExecStartEx"); err != nil {
		return f, err
	}
	return f, f.parse(p)
}

// parseProperties reads one line of {"type":…,"data":…} per property.
func parseProperties(out []byte, n int) ([]json.RawMessage, error) {
	var all []json.RawMessage
	for line := range strings.Lines(string(out)) {
		var v struct {
			Data json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			return nil, fmt.Errorf("read unit: %w", err)
		}
		all = append(all, v.Data)
	}
	if len(all) != n {
		return nil, fmt.Errorf("read unit: %d properties of %d", len(all), n)
	}
	return all, nil
}

// parse reads the properties of a service in the order in which facts asks.
func (f *unitFacts) parse(p []json.RawMessage) error {
	var files [][]any
	var commands [][]any
	for i, into := range []any{&f.kind, &f.user, &f.group, &f.dir, &f.root, &f.dynamic, &f.env, &files, &commands} {
		if err := json.Unmarshal(p[i], into); err != nil {
			return fmt.Errorf("read unit: %w", err)
		}
	}
	for _, e := range files {
		if len(e) != 2 {
			return errors.New("read unit: EnvironmentFiles is not as expected")
		}
		path, _ := e[0].(string)
		optional, _ := e[1].(bool)
		f.envFiles = append(f.envFiles, envFile{path, optional})
	}
	f.commands = len(commands)
	if f.commands == 0 {
		return nil
	}
	if len(commands[0]) < 3 {
		return errors.New("read unit: ExecStart is not as expected")
	}
	f.program, _ = commands[0][0].(string)
	argv, _ := commands[0][1].([]any)
	for _, a := range argv[min(1, len(argv)):] {
		word, _ := a.(string)
		f.args = append(f.args, word)
	}
	flags, _ := commands[0][2].([]any)
	f.verbatim = slices.Contains(flags, any("no-env-expand"))
	return nil
}

// fit refuses units whose etcd cannot be told from what else they run.
func (f unitFacts) fit(unit string) error {
	switch {
	case f.commands != 1:
		return refuse(Unclear, "give it one ExecStart with etcd itself", "%s has %d ExecStart", unit, f.commands)
	case !slices.Contains([]string{"simple", "exec", "notify", "notify-reload"}, f.kind):
		return refuse(Unfit, "give it Type=notify", "%s has Type=%s, which does not tell of etcd's process", unit, f.kind)
	case f.root != "":
		return refuse(Unfit, "drop it", "%s has RootDirectory=%s, with paths of its own", unit, f.root)
	case f.dynamic:
		return refuse(Unfit, "give it a User=", "%s has DynamicUser=yes, so that the owner of its data changes", unit)
	}
	return nil
}

// cwd is where relative paths begin.
func (f unitFacts) cwd() string {
	dir := strings.TrimLeft(f.dir, "-!")
	if !filepath.IsAbs(dir) {
		return "/"
	}
	return dir
}

// who is the user and group for lookUser. A service without is root's.
func (f unitFacts) who() string {
	user := f.user
	if user == "" {
		user = "0"
	}
	if f.group != "" {
		user += ":" + f.group
	}
	return user
}

// environment is Environment and then what the files say over it.
func (f unitFacts) environment() ([]string, error) {
	env := slices.Clone(f.env)
	for _, e := range f.envFiles {
		content, err := file.Read(e.path, maxFile)
		if errors.Is(err, fs.ErrNotExist) && e.optional {
			continue
		}
		if err != nil {
			return nil, refuse(Unclear, "correct EnvironmentFile", "environment file: %v", err)
		}
		more, err := parseEnvFile(e.path, string(content))
		if err != nil {
			return nil, err
		}
		env = append(env, more...)
	}
	return env, nil
}

var assignment = regexp.MustCompile(`^\s*([A-Za-z_][A-Za-z0-9_]*)=(.*?)\s*$`)

// parseEnvFile reads the plain forms of systemd.exec(5): NAME=value, with
// quotes around all of it or none, on one line. Others are refused, for they are
// easily read in another way.
func parseEnvFile(path, content string) ([]string, error) {
	var env []string
	for i, line := range strings.Split(content, "\n") {
		if t := strings.TrimSpace(line); t == "" || t[0] == '#' || t[0] == ';' {
			continue
		}
		m := assignment.FindStringSubmatch(line)
		if m == nil {
			return nil, refuse(Unclear, "write NAME=value", "%s:%d: %q", path, i+1, strings.TrimSpace(line))
		}
		value := m[2]
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		if strings.ContainsAny(value, "\"'\\") {
			return nil, refuse(Unclear, "write NAME=value or NAME=\"value\" on one line", "%s:%d: %s has quotes or a backslash within", path, i+1, m[1])
		}
		env = append(env, m[1]+"="+value)
	}
	return env, nil
}

var reference = regexp.MustCompile(`\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)`)

// argv replaces $NAME and ${NAME} as systemd does at a start: the first, where it
// is a word of its own, becomes as many words as it has.
func (f unitFacts) argv(env []string) ([]string, error) {
	if f.verbatim {
		return f.args, nil
	}
	lookup := func(name string) string {
		value := ""
		for _, e := range env {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				value = v
			}
		}
		return value
	}
	var out []string
	for _, word := range f.args {
		if m := reference.FindStringSubmatch(word); m != nil && m[0] == word && m[2] != "" {
			value := lookup(m[2])
			if strings.ContainsAny(value, "\"'\\") {
				return nil, refuse(Unclear, "write the flags themselves into ExecStart", "$%s has quotes or a backslash", m[2])
			}
			out = append(out, strings.Fields(value)...)
			continue
		}
		out = append(out, reference.ReplaceAllStringFunc(word, func(ref string) string {
			switch {
			case ref == "$$":
				return "$"
			case ref[1] == '{':
				return lookup(ref[2 : len(ref)-1])
			}
			return ref // only ${NAME} is replaced within a word
		}))
	}
	return out, nil
}

// busPath is a unit's name in an object's path: all but letters and digits as
// _ and two hexadecimal digits.
func busPath(unit string) string {
	var b strings.Builder
	for i := range len(unit) {
		c := unit[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' && i > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// quoteCommand writes a command for ExecStart so that systemd takes it word by
// word: no specifier, no variable.
func quoteCommand(argv []string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`, `$`, `$$`, "\n", `\n`)
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = `"` + escape.Replace(a) + `"`
	}
	return strings.Join(words, " ")
}
