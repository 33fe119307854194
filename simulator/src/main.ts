/** Entry point: the simulator itself, or one SOCKS proxy alone. */
import { writeAtomically } from './crypto/serverKeys.ts';
import { messageOf } from './errors.ts';
import { openLog, silenceConsole } from './log.ts';
import { HELP, parseOptions, parseSocksOptions, UsageError } from './options.ts';
import { listen } from './ports.ts';
import { Socks5Server } from './proxies/socks5.ts';
import { startSimulator } from './simulator.ts';

/** Nothing may keep a stopping process longer than this. */
const STOP_TIMEOUT_MS = 1_500;

const stopOnSignal = (stop: () => Promise<void>): void => {
  let stopping = false;
  const onSignal = () => {
    if (stopping) return;
    stopping = true;
    setTimeout(() => process.exit(0), STOP_TIMEOUT_MS).unref();
    stop().then(
      () => process.exit(0),
      () => process.exit(1)
    );
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
};

const runSocks = async (args: string[]): Promise<void> => {
  const { port, host, user, password, fault } = parseSocksOptions(args);
  const print = (value: object) => process.stdout.write(`${JSON.stringify(value)}\n`);
  const proxy = new Socks5Server({ user, password, onRequest: print });
  proxy.fault = fault;
  const bound = await listen(proxy.server, port, host);
  stopOnSignal(() => proxy.close());
  print({ port: bound });
};

const runSimulator = async (args: string[]): Promise<void> => {
  const options = parseOptions(args, process.env);
  const log = openLog(options.logFile);
  // A forgotten promise is a bug to be seen in the log, not a reason to take 500 workers' server away.
  process.on('unhandledRejection', reason => log.error('unhandled_rejection', { error: messageOf(reason) }));
  const simulator = await startSimulator(options, log);
  stopOnSignal(async () => {
    log.info('stopping');
    await simulator.stop();
  });
  if (options.readyFile) writeAtomically(options.readyFile, JSON.stringify(simulator.ready));
  log.info('ready', { url: simulator.ready.url, proxies: simulator.ready.proxies.length });
};

const main = async (args: string[]): Promise<void> => {
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(HELP);
    return;
  }
  silenceConsole();
  if (args[0] === 'socks') await runSocks(args.slice(1));
  else await runSimulator(args);
};

main(process.argv.slice(2)).catch((error: unknown) => {
  process.stderr.write(`simulator: ${messageOf(error)}\n`);
  process.exit(error instanceof UsageError ? 64 : 1);
});
