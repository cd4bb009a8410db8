package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/holdfast-ha/holdfast/internal/base/file"
)

// dialTime bounds a connection with its handshake, scriptTime one script: a
// systemctl stop may take its unit's 90 s.
const (
	dialTime   = 10 * time.Second
	scriptTime = 2 * time.Minute
	maxOutput  = 64 << 10
)

// session is one SSH connection to a host.
type session struct {
	host   Host
	client *ssh.Client
}

// dial connects and logs in. A host key that is unknown or changed is an error
// that names the file and the remedy.
func dial(ctx context.Context, h Host, known string) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", h.SSH)
	if err != nil {
		return nil, fmt.Errorf("host %s: connect: %w", h.Name, err)
	}
	client, err := login(ctx, conn, h, known)
	if err != nil {
		return nil, err
	}
	return &session{host: h, client: client}, nil
}

// login speaks SSH over a connection to h, which it closes when that fails.
func login(ctx context.Context, conn net.Conn, h Host, known string) (*ssh.Client, error) {
	cfg, closeAgent, err := clientConfig(h, known)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	defer closeAgent()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	c, chans, reqs, err := ssh.NewClientConn(conn, h.SSH, cfg)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("host %s: %w", h.Name, explain(err, h, known))
	}
	return ssh.NewClient(c, chans, reqs), nil
}

// aliveEvery is how often a host is asked over its connection whether it is there,
// aliveTime how long it may take to answer: three repetitions of TCP over a bad line.
const (
	aliveEvery = 3 * time.Second
	aliveTime  = 10 * time.Second
)

var errSilent = errors.New("it does not answer any more")

// alive asks once.
func alive(ctx context.Context, client *ssh.Client, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer := make(chan error, 1)
	go func() { // ends with the connection at the latest
		_, _, err := client.SendRequest("keepalive@openssh.com", true, nil)
		answer <- err
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return errSilent
	}
}

// watch closes the connection of a host that fell silent, so that nothing waits for
// it any more, and says so.
func (s *session) watch(ctx context.Context, gone func(error)) {
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for {
		err := alive(ctx, s.client, aliveTime)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			gone(fmt.Errorf("host %s: the connection broke: %w", s.host.Name, err))
			_ = s.client.Close()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func clientConfig(h Host, known string) (*ssh.ClientConfig, func(), error) {
	if known == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, nil, fmt.Errorf("knownHosts: %w; set it in the inventory", err)
		}
		known = filepath.Join(home, ".ssh", "known_hosts")
	}
	check, err := knownhosts.New(known)
	if err != nil {
		return nil, nil, fmt.Errorf("knownHosts: %w; fill it with ssh-keyscan and compare the keys", err)
	}
	auth, done, err := credentials(h)
	if err != nil {
		return nil, nil, fmt.Errorf("host %s: %w", h.Name, err)
	}
	return &ssh.ClientConfig{
		User: h.User, Auth: []ssh.AuthMethod{auth}, HostKeyCallback: check,
		HostKeyAlgorithms: recorded(check, h.SSH), Timeout: dialTime,
	}, done, nil
}

// recorded lists the algorithms of the keys that are known of an address: a
// server offers the first it has of ours, and another than the known one would
// look like a changed key. The callback tells them when it is asked about a key
// that no host has.
func recorded(check ssh.HostKeyCallback, addr string) []string {
	var ke *knownhosts.KeyError
	if err := check(addr, &net.TCPAddr{IP: net.IPv4zero}, noKey{}); !errors.As(err, &ke) {
		return nil
	}
	var out []string
	for _, k := range ke.Want {
		if t := k.Key.Type(); t == ssh.KeyAlgoRSA {
			out = append(out, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		} else {
			out = append(out, t)
		}
	}
	return out
}

// noKey is a key that matches none.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

// credentials are the key's file or the agent's keys.
func credentials(h Host) (ssh.AuthMethod, func(), error) {
	if h.Key == "" {
		socket := os.Getenv("SSH_AUTH_SOCK")
		if socket == "" {
			return nil, nil, errors.New("key: missing, and SSH_AUTH_SOCK names no agent; set one")
		}
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return nil, nil, fmt.Errorf("connect to the agent: %w", err)
		}
		return ssh.PublicKeysCallback(agent.NewClient(conn).Signers), func() { _ = conn.Close() }, nil
	}
	pem, err := file.Read(h.Key, most)
	if err != nil {
		return nil, nil, fmt.Errorf("key: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(pem)
	if missing := (*ssh.PassphraseMissingError)(nil); errors.As(err, &missing) {
		return nil, nil, fmt.Errorf("key: %s has a passphrase; add it to an agent (ssh-add) and leave key out", h.Key)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("key: %s: %w", h.Key, err)
	}
	return ssh.PublicKeys(signer), func() {}, nil
}

// explain says what to do about a refused handshake.
func explain(err error, h Host, known string) error {
	var ke *knownhosts.KeyError
	var revoked *knownhosts.RevokedError
	switch {
	case errors.As(err, &ke) && len(ke.Want) > 0:
		return fmt.Errorf("the host key of %s is not the one in %s:%d; find out why before you replace that line", h.SSH, ke.Want[0].Filename, ke.Want[0].Line)
	case errors.As(err, &ke):
		return fmt.Errorf("the host key of %s is not in %s; add it with ssh-keyscan after you compared it", h.SSH, orDefault(known))
	case errors.As(err, &revoked):
		return fmt.Errorf("the host key of %s is revoked in %s", h.SSH, orDefault(known))
	}
	return fmt.Errorf("log in as %s at %s: %w", h.User, h.SSH, err)
}

func orDefault(known string) string {
	if known == "" {
		return "~/.ssh/known_hosts"
	}
	return known
}

// run carries a script to the host's sh and returns what it printed. want is the
// last word of one that went through.
func (s *session) run(ctx context.Context, script, want string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, scriptTime)
	defer cancel()
	ch, err := s.client.NewSession()
	if err != nil {
		return "", fmt.Errorf("host %s: open session: %w", s.host.Name, err)
	}
	defer func() { _ = ch.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = ch.Close() })
	defer stop()
	var out bounded
	ch.Stdin, ch.Stdout, ch.Stderr = strings.NewReader(script), &out, &out
	command := `exec env HOLDFAST_SSH="$SSH_CONNECTION" sh -s`
	if s.host.Sudo {
		command = `exec sudo -n env HOLDFAST_SSH="$SSH_CONNECTION" sh -s`
	}
	err = ch.Run(command)
	text := strings.TrimSpace(out.String())
	lines := strings.Split(text, "\n")
	if last := lines[len(lines)-1]; err == nil && last == want {
		return text, nil
	} else if err == nil {
		return text, fmt.Errorf("host %s: unexpected answer %q", s.host.Name, last)
	}
	if text != "" {
		return text, fmt.Errorf("host %s: %s (%w)", s.host.Name, lines[len(lines)-1], err)
	}
	return text, fmt.Errorf("host %s: %w", s.host.Name, err)
}

// bounded keeps the first maxOutput bytes. Standard output and error are copied
// into it at once.
type bounded struct {
	mu  sync.Mutex
	buf []byte
}

func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if room := maxOutput - len(b.buf); room > 0 {
		b.buf = append(b.buf, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

func (b *bounded) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.buf)
}
